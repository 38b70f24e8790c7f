"""Tokens at the kernel: every row of the table of configurations, what is not known, contradictions."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from nvfp4_moe.analysis.serving import Reach, prefill_rank_tokens, serving_reach
from nvfp4_moe.analysis.serving_flags import (
    ALL2ALL_BACKENDS,
    Caller,
    CompilationConfig,
    ServingFlags,
    parse_compilation_config,
    parse_speculative_config,
)

SP = CompilationConfig(sequence_parallel=True)
BATCH = 8192


def reach(**flags: Any) -> tuple[Reach, int | None]:
    found = serving_reach(ServingFlags(**({"max_num_batched_tokens": BATCH} | flags)))
    return found.reach, found.max_tokens


@pytest.mark.parametrize(
    ("flags", "tokens"),
    [
        ({}, BATCH),
        ({"tensor_parallel_size": 8}, BATCH),
        ({"pipeline_parallel_size": 4}, BATCH),
        ({"tensor_parallel_size": 4, "pipeline_parallel_size": 2}, BATCH),
        ({"data_parallel_size": 8}, 8 * BATCH),
        ({"data_parallel_size": 2, "tensor_parallel_size": 4}, 2 * BATCH),
        ({"tensor_parallel_size": 4, "compilation_config": SP}, BATCH),
        ({"tensor_parallel_size": 4, "compilation_config": SP, "max_num_batched_tokens": 8189}, BATCH),
        ({"compilation_config": SP, "max_num_batched_tokens": 8189}, 8189),
        (
            {
                "data_parallel_size": 2,
                "tensor_parallel_size": 4,
                "compilation_config": SP,
                "max_num_batched_tokens": 8189,
            },
            2 * BATCH,
        ),
        ({"prefill_context_parallel_size": 4}, 4 * BATCH),
        ({"prefill_context_parallel_size": 2, "tensor_parallel_size": 2}, 2 * BATCH),
        ({"enable_dbo": True}, BATCH),
        ({"num_speculative_tokens": 3}, BATCH),
        ({"enable_expert_parallel": True}, BATCH),
        ({"caller": Caller.CONFIG}, BATCH),
    ],
)
def test_tokens_that_reach_the_kernel(flags: dict[str, Any], tokens: int) -> None:
    assert reach(**flags) == (Reach.BOUNDED, tokens)


@pytest.mark.parametrize("backend", ALL2ALL_BACKENDS)
@pytest.mark.parametrize(
    "ranks",
    [
        {"data_parallel_size": 2},
        {"tensor_parallel_size": 2},
        {"tensor_parallel_size": 2, "data_parallel_size": 2},
        {"prefill_context_parallel_size": 2},
    ],
)
def test_expert_parallelism_is_refused_whatever_the_backend(ranks: dict[str, int], backend: str) -> None:
    assert reach(enable_expert_parallel=True, all2all_backend=backend, **ranks) == (Reach.REFUSED, None)


def test_lora_is_refused_and_says_that_this_is_inferred() -> None:
    found = serving_reach(ServingFlags(max_num_batched_tokens=BATCH, enable_lora=True))
    assert found.reach is Reach.REFUSED
    assert any("inferred" in step.name for step in found.steps)


@pytest.mark.parametrize(
    "flags",
    [
        {"caller": Caller.OP},
        {"compilation_config": CompilationConfig(unknown_keys=("pass_config.new",))},
        {"enable_dbo": True, "data_parallel_size": 2},
        {"enable_dbo": True, "prefill_context_parallel_size": 2},
        {"prefill_context_parallel_size": 2, "pipeline_parallel_size": 2},
        {"prefill_context_parallel_size": 2, "num_speculative_tokens": 1},
        {"prefill_context_parallel_size": 2, "tensor_parallel_size": 2, "compilation_config": SP},
    ],
)
def test_combinations_without_a_source_are_unknown_and_say_so(flags: dict[str, Any]) -> None:
    found = serving_reach(ServingFlags(max_num_batched_tokens=BATCH, **flags))
    assert (found.reach, found.max_tokens) == (Reach.UNKNOWN, None)
    assert any(step.value == "unknown" for step in found.steps)


def test_a_refusal_goes_before_a_doubt() -> None:
    assert reach(enable_lora=True, enable_dbo=True, data_parallel_size=2) == (Reach.REFUSED, None)


def test_every_step_has_a_source_and_the_last_is_about_the_twins() -> None:
    sizes = (1, 2)
    for dp, pcp, ep, lora, dbo in itertools.product(sizes, sizes, *[(False, True)] * 3):
        if dp > 1 and pcp > 1:
            continue
        flags = ServingFlags(
            max_num_batched_tokens=BATCH,
            data_parallel_size=dp,
            prefill_context_parallel_size=pcp,
            enable_expert_parallel=ep,
            enable_lora=lora,
            enable_dbo=dbo,
            all2all_backend="nixl_ep",
        )
        steps = serving_reach(flags).steps
        assert all(step.name and step.source for step in steps)
        assert "MXFP4" in steps[-1].name


# --- calls and traffic -----------------------------------------------------------------------------------------


def _rank_tokens(tokens: int, ranks: int) -> int:
    """The pieces dealt out one token at a time: an emulation that shares nothing with the formula."""
    pieces = 2 * ranks
    length = -(-tokens // pieces)
    owner = {piece: min(piece, pieces - 1 - piece) for piece in range(pieces)}
    counts = [0] * ranks
    for token in range(tokens):
        counts[owner[token // length]] += 1
    return max(counts)


def test_prefill_chunks_are_dealt_out_as_vllm_does() -> None:
    for ranks, tokens in itertools.product((1, 2, 3, 4, 5, 8), range(1, 200)):
        assert prefill_rank_tokens(tokens, ranks) == _rank_tokens(tokens, ranks), (ranks, tokens)


def test_one_decoding_request_beside_a_long_prompt_exceeds_the_batch() -> None:
    for ranks, batch in itertools.product((2, 3, 4, 8), range(1, 300)):
        assert ranks * (1 + prefill_rank_tokens(batch - 1, ranks)) > batch


@pytest.mark.parametrize(
    ("flags", "limit", "tokens", "said"),
    [
        ({}, 100, 101, "a step of 101 tokens"),
        ({"data_parallel_size": 4}, 8192, 8193, "(2,049 on each are enough); the profile run at start-up"),
        ({"prefill_context_parallel_size": 4}, 8192, 8196, "2,049 requests that decode one token each"),
        (
            {"prefill_context_parallel_size": 2, "max_num_batched_tokens": 1},
            1,
            2,
            "1 request that decodes one token: every one of the 2 ranks computes it, 2 tokens together",
        ),
        (
            {"tensor_parallel_size": 4, "compilation_config": SP, "max_num_batched_tokens": 8190},
            8190,
            8192,
            "a step of 8,189 tokens, padded to 8,192",
        ),
        ({"caller": Caller.CONFIG}, 2048, 2049, "a call of 2,049 tokens"),
    ],
)
def test_smallest_call_and_its_traffic(flags: dict[str, Any], limit: int, tokens: int, said: str) -> None:
    found = serving_reach(ServingFlags(**({"max_num_batched_tokens": BATCH} | flags)))
    assert found.smallest_call_above(limit) == tokens
    assert said in found.traffic(tokens)
    assert "chunk of 0" not in found.traffic(tokens)


# --- flags -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"max_num_batched_tokens": 0}, "--max-num-batched-tokens must be between 1"),
        ({"tensor_parallel_size": True}, "--tensor-parallel-size must be an integer"),
        ({"num_speculative_tokens": -1}, "--num-speculative-tokens must be between 0"),
        ({"all2all_backend": "carrier"}, "--all2all-backend must be one of allgather_reducescatter"),
        ({"prefill_context_parallel_size": 2, "data_parallel_size": 2}, "contradict"),
    ],
)
def test_flags_that_vllm_refuses(flags: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        ServingFlags(**({"max_num_batched_tokens": BATCH} | flags))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", CompilationConfig()),
        ("3", CompilationConfig()),
        ('{"pass_config": {"enable_sp": true}}', SP),
        ('{"pass_config": {"enable_sequence_parallelism": true}}', SP),
        ('{"pass_config": {"fuse_gemm_comms": true, "enable_sp": false}}', SP),
        ('{"pass_config": {"enable_sp": null}, "cudagraph_mode": "NONE"}', CompilationConfig()),
        ('{"cudagraph_capture_sizes": [1, 2, 9000]}', CompilationConfig()),
        (
            '{"later": 1, "pass_config": {"sooner": 2}}',
            CompilationConfig(unknown_keys=("later", "pass_config.sooner")),
        ),
    ],
)
def test_compilation_config(text: str, expected: CompilationConfig) -> None:
    assert parse_compilation_config(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "true",
        '"3"',
        '{"pass_config": 1}',
        '{"pass_config": {"enable_sp": 1}}',
        "[" * 50_000,
        "1" * (1 << 17),
    ],
)
def test_compilation_config_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="--compilation-config"):
        parse_compilation_config(text)


def test_speculative_config() -> None:
    assert parse_speculative_config('{"method": "eagle", "num_speculative_tokens": 3}') == 3
    for text in ("", "3", "{}", '{"num_speculative_tokens": true}', '{"num_speculative_tokens": 0}'):
        with pytest.raises(ValueError, match="--speculative-config"):
            parse_speculative_config(text)
