"""How many tokens reach the NVFP4 expert kernel of one rank in one call, for serving flags of vLLM.

The kernel is `run_cutlass_moe_fp4` (class CutlassExpertsFp4). The scheduler sends at most
max_num_batched_tokens tokens a step, and what lies between scheduler and kernel may change that number:

| flags | tokens at the kernel |
|---|---|
| one GPU, tensor or pipeline parallel | as scheduled |
| `pass_config.enable_sp`, tensor parallel | rounded up to a multiple of tensor_parallel_size |
| data parallel, no expert parallel | those of all ranks, gathered: data_parallel_size times as many |
| prefill context parallel, no expert parallel | those of all ranks, gathered; each computes all decoding tokens |
| expert parallel on more than one rank, LoRA | none: the class refuses |
| speculative decoding, CUDA graphs, dual batch overlap | not more than scheduled |

What no source was found for is UNKNOWN, and says which flags it is about. Each step names its source; paths
are those of the vLLM repository, numbers its issues and pull requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nvfp4_moe.analysis.serving_flags import DEFAULT_CONFIG_TOKENS, Caller, ServingFlags
from nvfp4_moe.reference.padding import ceil_div, check_size, round_up

_RUNNER = "vllm/v1/worker/gpu_model_runner.py"
_MOE = "vllm/model_executor/layers/fused_moe"


class Reach(StrEnum):
    """What is known of the tokens that reach the kernel."""

    BOUNDED = "bounded"
    REFUSED = "refused"
    """The kernel's class refuses these flags, so another one runs."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step from the flags to the kernel."""

    name: str
    value: int | str
    """Tokens of one rank's call after the step, or what else it says."""
    source: str

    def to_json(self) -> dict[str, int | str]:
        """Return the JSON form."""
        return {"name": self.name, "value": self.value, "source": self.source}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingReach:
    """The tokens that can reach the kernel of one rank in one call."""

    flags: ServingFlags
    reach: Reach
    max_tokens: int | None
    """None unless `reach` is BOUNDED."""
    sized_for: int
    """Tokens that a buffer of the kind `sized_for="max_num_batched_tokens"` is told."""
    granularity: int = 1
    """The tokens of every call are a multiple of it."""
    steps: tuple[Step, ...]

    def smallest_call_above(self, tokens: int) -> int:
        """Return the smallest size of a call above `tokens`; it may be above `max_tokens`."""
        return round_up(tokens + 1, self.granularity)

    def traffic(self, tokens: int) -> str:
        """Return traffic that brings `tokens` tokens to the kernel at once, in words."""
        flags = self.flags
        if flags.caller is Caller.CONFIG:
            return f"a call of {tokens:,} tokens"
        if flags.data_parallel_size > 1:
            ranks = flags.data_parallel_size
            return (
                f"{tokens:,} tokens in one step over the {ranks:,} data-parallel ranks together "
                f"({ceil_div(tokens, ranks):,} on each are enough); the profile run at start-up already sends "
                f"{self.max_tokens:,}"
            )
        if flags.prefill_context_parallel_size > 1:
            return _context_parallel_traffic(flags, tokens)
        if flags.pads_to_tensor_parallel:
            return f"a step of {tokens - self.granularity + 1:,} tokens, padded to {tokens:,}"
        return f"a step of {tokens:,} tokens"


def prefill_rank_tokens(tokens: int, ranks: int) -> int:
    """Return the tokens of the fullest rank when prefill context parallelism deals out a prompt chunk.

    The chunk is cut into 2*ranks pieces of ceil(tokens / (2*ranks)); rank r gets pieces r and 2*ranks-1-r.

    Source: vLLM vllm/v1/worker/gpu/pcp_manager.py, PCPManager._get_rank_segments.
    """
    check_size("tokens", tokens, at_least=0)
    piece = ceil_div(tokens, 2 * ranks)
    if ranks == 1:
        return tokens
    middle = sum(max(0, min(piece, tokens - index * piece)) for index in (ranks - 1, ranks))
    # the rank in the middle has two neighbouring pieces, unless the chunk is so short that they are empty
    return max(middle, piece)


def _context_parallel_traffic(flags: ServingFlags, tokens: int) -> str:
    ranks = flags.prefill_context_parallel_size
    requests = tokens // ranks
    if requests == 1:
        return (
            f"1 request that decodes one token: every one of the {ranks:,} ranks computes it, "
            f"{tokens:,} tokens together"
        )
    decoding = (
        f"{requests:,} requests that decode one token each: every one of the {ranks:,} ranks computes all "
        f"of them, {tokens:,} tokens together"
    )
    chunk = flags.max_num_batched_tokens - 1
    beside = ranks * (1 + prefill_rank_tokens(chunk, ranks))
    if not flags.max_num_batched_tokens < tokens <= beside:
        return decoding
    return f"{decoding}; or one decoding request beside a prompt chunk of {chunk:,} tokens: {beside:,}"


def serving_reach(flags: ServingFlags) -> ServingReach:
    """Return how many tokens reach the kernel of one rank at most, and why."""
    walk = _Walk(flags, tokens=flags.max_num_batched_tokens)
    if flags.caller is Caller.ENGINE:
        for rule in _RULES:
            rule(walk)
    else:
        _direct(walk)
    reach = Reach.REFUSED if walk.refused else Reach.UNKNOWN if walk.unknown else Reach.BOUNDED
    walk.steps += [_chosen(), _twins()]
    return ServingReach(
        flags=flags,
        reach=reach,
        max_tokens=walk.tokens if reach is Reach.BOUNDED else None,
        sized_for=DEFAULT_CONFIG_TOKENS if flags.caller is Caller.CONFIG else flags.max_num_batched_tokens,
        granularity=walk.granularity,
        steps=tuple(walk.steps),
    )


@dataclass(slots=True)
class _Walk:
    """The tokens on their way from the scheduler to the kernel."""

    flags: ServingFlags
    tokens: int
    granularity: int = 1
    refused: bool = False
    unknown: bool = False
    steps: list[Step] = field(default_factory=list)

    def say(self, name: str, source: str, *, value: int | str | None = None) -> None:
        self.steps.append(Step(name=name, value=self.tokens if value is None else value, source=source))

    def refuse(self, name: str, source: str) -> None:
        self.refused = True
        self.say(name, source, value="refused")

    def doubt(self, name: str, source: str) -> None:
        self.unknown = True
        self.say(name, source, value="unknown")


# --- the rules, in the order of the way ----------------------------------------------------------------------------


def _scheduler(walk: _Walk) -> None:
    walk.say(
        "the scheduler sends at most max_num_batched_tokens tokens a step, and the profile run exactly as many",
        f"vllm/v1/core/sched/scheduler.py; {_RUNNER} (max_num_tokens, profile_run)",
    )
    if walk.flags.pipeline_parallel_size > 1:
        walk.say("pipeline stages see the same tokens one after the other", "vllm/v1/worker/gpu_worker.py")
    if walk.flags.num_speculative_tokens:
        walk.say(
            "speculative decoding: drafted tokens count among the scheduled ones, drafter batches too",
            "vllm/config/vllm.py (max_num_scheduled_tokens); vllm/v1/core/sched/scheduler.py",
        )
    walk.say(
        "CUDA graphs pad to a captured size, and sizes above max_num_batched_tokens are dropped",
        "vllm/config/vllm.py (_set_cudagraph_sizes)",
    )


def _compile_passes(walk: _Walk) -> None:
    flags = walk.flags
    if flags.compilation_config.unknown_keys:
        walk.doubt(
            f"--compilation-config: what {', '.join(flags.compilation_config.unknown_keys)} does to the tokens of a "
            "step is not known here",
            "none",
        )
    if flags.pads_to_tensor_parallel:
        walk.granularity = flags.tensor_parallel_size
        walk.tokens = round_up(walk.tokens, walk.granularity)
        walk.say(
            f"enable_sp pads a step to a multiple of tensor_parallel_size ({flags.tensor_parallel_size:,})",
            f"{_RUNNER} (_pad_for_sequence_parallelism)",
        )


def _tensor_parallel(walk: _Walk) -> None:
    if walk.flags.tensor_parallel_size > 1 and not walk.flags.enable_expert_parallel:
        walk.say(
            "tensor parallelism cuts the experts' width; every rank sees all tokens of its group",
            f"{_MOE}/config.py (FusedMoEParallelConfig.make)",
        )


def _expert_parallel(walk: _Walk) -> None:
    flags = walk.flags
    if flags.enable_expert_parallel and flags.ranks == 1:
        walk.say(
            "--enable-expert-parallel has no effect on one rank",
            f"{_MOE}/config.py (FusedMoEParallelConfig.make)",
        )
    elif flags.enable_expert_parallel:
        walk.refuse(
            f"expert parallelism over {flags.ranks:,} ranks: CutlassExpertsFp4 takes an expert-parallel size of 1 "
            f"alone, whatever the all-to-all backend ({flags.all2all_backend}); another back end runs",
            f"{_MOE}/experts/cutlass_moe.py (_supports_parallel_config); pull requests 18281, 20037",
        )
    elif flags.all2all_backend != "allgather_reducescatter":
        walk.say(
            f"--all2all-backend {flags.all2all_backend} has no effect without expert parallelism",
            f"{_MOE}/config.py (use_all2all_kernels)",
        )


def _lora(walk: _Walk) -> None:
    if walk.flags.enable_lora:
        walk.refuse(
            "LoRA: CutlassExpertsFp4 has no LoRA form, another back end runs (inferred from the class, not run)",
            f"{_MOE}/experts/cutlass_moe.py",
        )


def _dual_batch(walk: _Walk) -> None:
    flags = walk.flags
    if not flags.enable_dbo:
        return
    if flags.ranks > flags.tensor_parallel_size:
        walk.doubt(
            "dual batch overlap over several data- or context-parallel ranks: vLLM wants the DeepEP back ends for it, "
            "which need expert parallelism",
            "vllm/config/vllm.py",
        )
    else:
        walk.say("dual batch overlap splits a step, never joins steps", f"{_MOE}/modular_kernel.py")


def _data_parallel(walk: _Walk) -> None:
    ranks = walk.flags.data_parallel_size
    if ranks == 1 or walk.flags.enable_expert_parallel:
        return
    walk.tokens *= ranks
    walk.say(
        f"data parallelism without expert parallelism: the tokens of all {ranks:,} ranks are gathered before the "
        "experts, and the profile run does so at every start",
        f"{_MOE}/all2all_utils.py (maybe_make_prepare_finalize); vllm/v1/worker/dp_utils.py; issue 47982",
    )


def _prefill_context_parallel(walk: _Walk) -> None:
    flags = walk.flags
    ranks = flags.prefill_context_parallel_size
    if ranks == 1 or flags.enable_expert_parallel:
        return
    beside = [
        name
        for name, there in (
            ("pipeline parallelism", flags.pipeline_parallel_size > 1),
            ("speculative decoding", flags.num_speculative_tokens > 0),
            ("enable_sp", flags.pads_to_tensor_parallel),
        )
        if there
    ]
    if beside:
        walk.doubt(
            f"prefill context parallelism together with {' and '.join(beside)}: vLLM's runner refuses it, or no source "
            "was found",
            "vllm/v1/worker/gpu/pcp_manager.py (validate_config)",
        )
        return
    walk.tokens *= ranks
    walk.granularity = ranks
    walk.say(
        f"prefill context parallelism without expert parallelism: the tokens of all {ranks:,} ranks, padded to the "
        "fullest, are gathered before the experts; each rank computes every decoding token, at most "
        "max_num_batched_tokens in all",
        f"{_MOE}/runner/moe_runner.py (_maybe_dispatch); vllm/v1/worker/gpu/pcp_manager.py (_build_batch_layout)",
    )


_RULES = (
    _scheduler,
    _compile_passes,
    _tensor_parallel,
    _expert_parallel,
    _lora,
    _dual_batch,
    _data_parallel,
    _prefill_context_parallel,
)


def _direct(walk: _Walk) -> None:
    if walk.flags.caller is Caller.CONFIG:
        walk.say("the caller builds FusedMoEConfig itself and sends calls of this size", f"{_MOE}/config.py")
        walk.say(
            "the field max_num_batched_tokens stays at its default, which the buffer and its guard use",
            f"{_MOE}/config.py (FusedMoEConfig), as the change proposes",
            value=DEFAULT_CONFIG_TOKENS,
        )
    else:
        walk.doubt(
            "the operation is called directly: no scheduler limits its rows (weights passed as experts have N rows "
            "each, topk 1), and a size from the scheduler means nothing",
            "vllm/_custom_ops.py (scaled_fp4_experts_quant); tests/kernels/moe",
        )


def _chosen() -> Step:
    return Step(
        name="That this kernel runs at all is assumed",
        value="vLLM takes it for moe_backend=cutlass, and by itself where no FlashInfer back end fits: mostly on SM120 and "
        "SM121",
        source=f"{_MOE}/oracle/nvfp4.py",
    )


def _twins() -> Step:
    return Step(
        name="MXFP4 twins (mxfp4_experts_quant and its SiLU form) size by the same environment variable, 163840*topk "
        "rows",
        value="a change that deletes VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE must port their two wrappers too, or they fail "
        "with AttributeError; ported, they need the same rows as here, but their tests pass weights as experts (topk 1, "
        "experts x N rows), which a size from the scheduler refuses",
        source="vllm/_custom_ops.py (4 uses of the variable); "
        "csrc/libtorch_stable/quantization/fp4/mxfp4_experts_quant.cu",
    )
