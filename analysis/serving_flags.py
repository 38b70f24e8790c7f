"""The serving flags of vLLM that decide how many tokens reach one expert kernel, under their own names.

Flags that vLLM itself refuses together are refused here too, with its reason. `--compilation-config` is JSON,
or a level as a bare integer; of its keys only two change the tokens of a step: `pass_config.enable_sp`
(older: enable_sequence_parallelism) and `pass_config.fuse_gemm_comms` (older: enable_async_tp), which
switches the first on. Keys of `HARMLESS_KEYS` and `HARMLESS_PASSES` change none; any other key is kept in
`unknown_keys`, and the answer is then unknown.

Sources: vLLM vllm/config/parallel.py (names, defaults, what is refused), vllm/config/compilation.py
(PassConfig), vllm/config/vllm.py (fuse_gemm_comms needs enable_sp).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nvfp4_moe.reference.padding import check_size

ALL2ALL_BACKENDS = (
    "allgather_reducescatter",
    "deepep_high_throughput",
    "deepep_low_latency",
    "deepep_v2",
    "mori_high_throughput",
    "mori_low_latency",
    "nixl_ep",
    "flashinfer_nvlink_two_sided",
    "flashinfer_nvlink_one_sided",
    "flashinfer_all2allv",
    "naive",
    "pplx",
)
"""Names that vLLM takes; the last two have been removed and mean the first."""

DEFAULT_CONFIG_TOKENS = 2_048
"""`FusedMoEConfig.max_num_batched_tokens` where nobody fills it from the scheduler, in the proposed change."""

SEQUENCE_PARALLEL_KEYS = ("enable_sp", "enable_sequence_parallelism", "fuse_gemm_comms", "enable_async_tp")
"""Keys of pass_config that pad a step to a multiple of tensor_parallel_size."""

HARMLESS_KEYS = frozenset(
    (
        "mode",
        "level",
        "debug_dump_path",
        "cache_dir",
        "compile_cache_save_format",
        "backend",
        "custom_ops",
        "splitting_ops",
        "use_inductor",
        "use_inductor_graph_partition",
        "compile_sizes",
        "inductor_compile_config",
        "inductor_passes",
        "compile_mm_encoder",
        "cudagraph_mode",
        "cudagraph_num_of_warmups",
        "cudagraph_capture_sizes",
        "max_cudagraph_capture_size",
        "cudagraph_copy_inputs",
        "use_cudagraph",
        "full_cuda_graph",
    )
)
"""Keys of compilation_config that compile or capture otherwise, yet leave the tokens of a step as they are: capture
sizes above max_num_batched_tokens are dropped."""

HARMLESS_PASSES = frozenset(
    (
        "fuse_norm_quant",
        "fuse_act_quant",
        "fuse_attn_quant",
        "fuse_allreduce_rms",
        "enable_qk_norm_rope_fusion",
        "eliminate_noops",
        "enable_fusion",
        "enable_attn_fusion",
        "enable_noop",
        "enable_fi_allreduce_fusion",
        "fi_allreduce_fusion_max_size_mb",
    )
)
"""Keys of pass_config that fuse kernels."""

_QUOTED = 60
_MOST_CHARACTERS = 1 << 16


class Caller(StrEnum):
    """Who calls the kernel."""

    ENGINE = "engine"
    """vLLM's layer: the scheduler's setting reaches the kernel's configuration."""
    CONFIG = "config"
    """A test, benchmark or tool that builds FusedMoEConfig itself and leaves max_num_batched_tokens at its default."""
    OP = "op"
    """Someone who calls the quantization operation directly, with any number of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilationConfig:
    """What `--compilation-config` says about the tokens of a step; made by `parse_compilation_config`."""

    sequence_parallel: bool = False
    unknown_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingFlags:
    """Flags of `vllm serve`, by their names.

    Raises (on construction):
        TypeError, ValueError: a size that is no positive integer, a backend that vLLM does not know, or
            flags that vLLM refuses together; the text names the flag.
    """

    max_num_batched_tokens: int
    """Tokens that the scheduler sends in a step at most; for `Caller.CONFIG` the tokens of the largest call."""
    tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    prefill_context_parallel_size: int = 1
    enable_expert_parallel: bool = False
    all2all_backend: str = ALL2ALL_BACKENDS[0]
    compilation_config: CompilationConfig = field(default_factory=CompilationConfig)
    num_speculative_tokens: int = 0
    """Of `--speculative-config`."""
    enable_dbo: bool = False
    enable_lora: bool = False
    caller: Caller = Caller.ENGINE

    def __post_init__(self) -> None:
        for name in _SIZES:
            _check_flag(name, getattr(self, name), at_least=1)
        _check_flag("num_speculative_tokens", self.num_speculative_tokens, at_least=0)
        if self.all2all_backend not in ALL2ALL_BACKENDS:
            raise ValueError(
                f"--all2all-backend must be one of {', '.join(ALL2ALL_BACKENDS)}, got {self.all2all_backend!r}"
            )
        if self.prefill_context_parallel_size > 1 and self.data_parallel_size > 1:
            raise ValueError(
                f"--prefill-context-parallel-size {self.prefill_context_parallel_size} and --data-parallel-size "
                f"{self.data_parallel_size} contradict: vLLM refuses prefill context parallelism with data parallelism"
            )

    @property
    def expert_parallel_size(self) -> int:
        """Return the ranks that the experts are dealt out to: all with `--enable-expert-parallel`, else 1."""
        return self.ranks if self.enable_expert_parallel else 1

    @property
    def ranks(self) -> int:
        """Return the ranks that share a mixture-of-experts layer."""
        return self.tensor_parallel_size * self.data_parallel_size * self.prefill_context_parallel_size

    @property
    def pads_to_tensor_parallel(self) -> bool:
        """Return whether a step is padded to a multiple of the ranks; vLLM switches it off for one rank."""
        return self.compilation_config.sequence_parallel and self.tensor_parallel_size > 1


_SIZES = (
    "max_num_batched_tokens",
    "tensor_parallel_size",
    "data_parallel_size",
    "pipeline_parallel_size",
    "prefill_context_parallel_size",
)


def _check_flag(name: str, value: Any, *, at_least: int) -> None:
    try:
        check_size(name, value, at_least=at_least)
    except (TypeError, ValueError) as error:
        raise type(error)(f"--{str(error).replace('_', '-', name.count('_'))}") from error


def parse_compilation_config(text: str) -> CompilationConfig:
    """Return what `--compilation-config TEXT` says about the tokens of a step.

    Raises:
        ValueError: neither a JSON object nor a bare integer, or a switch that is not true or false.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(
            f"--compilation-config has {len(text)} characters, at most {_MOST_CHARACTERS} are read"
        )
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"--compilation-config must be JSON, got {text[:_QUOTED]!r}: {error}") from error
    if isinstance(given, int) and not isinstance(given, bool):
        return CompilationConfig()
    if not isinstance(given, dict):
        raise ValueError(f"--compilation-config must be a JSON object or a level, got {text[:_QUOTED]!r}")
    passes = given.pop("pass_config", {})
    if not isinstance(passes, dict):
        raise ValueError(
            f"--compilation-config: pass_config must be an object, got {str(passes)[:_QUOTED]!r}"
        )
    on = [_switch(key, passes.pop(key)) for key in SEQUENCE_PARALLEL_KEYS if key in passes]
    unknown = [key for key in given if key not in HARMLESS_KEYS]
    unknown += [f"pass_config.{key}" for key in passes if key not in HARMLESS_PASSES]
    return CompilationConfig(sequence_parallel=any(on), unknown_keys=tuple(unknown))


def parse_speculative_config(text: str) -> int:
    """Return num_speculative_tokens of `--speculative-config TEXT`.

    Raises:
        ValueError: no JSON object, or its num_speculative_tokens is no positive integer.
    """
    try:
        given = json.loads(text[:_MOST_CHARACTERS])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"--speculative-config must be JSON, got {text[:_QUOTED]!r}: {error}") from error
    number = given.get("num_speculative_tokens") if isinstance(given, dict) else None
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(
            f"--speculative-config must be an object with a positive num_speculative_tokens, got {text[:_QUOTED]!r}"
        )
    return number


def _switch(key: str, value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"--compilation-config: pass_config.{key} must be true or false, got {value!r:.60}")
    return bool(value)
