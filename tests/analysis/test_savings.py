"""Rows and bytes of both buffers, the peak and what is saved: known numbers, derived again here."""

from __future__ import annotations

import itertools

import pytest

from nvfp4_moe.analysis.savings import Savings, savings
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.analysis.zoo_shape import ModelShape
from nvfp4_moe.reference.padding import FORMULAS

R1 = ZOO["DeepSeek-R1"]
MEBIBYTE = 1 << 20


def lines(found: Savings, model: str = "DeepSeek-R1", tokens: int = 8192) -> dict[str, tuple[int, int, int]]:
    return {x.formula.name: (x.rows, x.peak_bytes, x.saved_bytes) for x in found.of(model, tokens)}


def test_the_change_in_question() -> None:
    """DeepSeek-R1 at 8,192 tokens: 98,048 rows of 448 bytes are 41.9 MiB, against 560 MiB."""
    found = lines(savings([R1], max_num_batched_tokens=[8192]))
    assert list(found) == list(FORMULAS)
    assert found["proposed"] == (98_048, 98_048 * 448, 560 * MEBIBYTE - 98_048 * 448)
    assert found["vllm_env"] == (1_310_720, 560 * MEBIBYTE, 0)
    assert found["sglang"] == (524_288, 224 * MEBIBYTE, 336 * MEBIBYTE)
    assert found["exact_any"][0] == found["exact_distinct"][0] == 98_048
    assert round(found["proposed"][1] / MEBIBYTE, 1) == 41.9


def test_both_buffers_and_the_larger_is_the_peak() -> None:
    narrow, wide = R1, ZOO["Mixtral-8x7B"]
    found = savings([narrow, wide], max_num_batched_tokens=[1])
    first, second = (found.of(model.name, 1)[0] for model in (narrow, wide))
    assert (first.hidden_bytes, first.intermediate_bytes) == (first.rows * 448, first.rows * 128)
    assert first.peak_bytes == first.hidden_bytes
    assert (second.hidden_bytes, second.intermediate_bytes) == (second.rows * 256, second.rows * 896)
    assert second.peak_bytes == second.intermediate_bytes


@pytest.mark.parametrize("name", ZOO)
def test_every_model_of_the_zoo(name: str) -> None:
    """Peak and saving of the proposed formula from the sizes alone."""
    model = ZOO[name]
    widest = max(-(-model.hidden_size // 64), -(-model.intermediate_size // 64)) * 4
    rows = 8192 * model.topk + 127 * model.num_experts
    found = lines(savings([model], max_num_batched_tokens=[8192]), name)
    assert found["proposed"] == (rows, rows * widest, (163_840 * model.topk - rows) * widest)


def test_tensor_parallel_cuts_the_second_buffer_alone() -> None:
    whole = savings([R1], max_num_batched_tokens=[8192]).of(R1.name, 8192)
    part = savings([R1], max_num_batched_tokens=[8192], tensor_parallel_size=8).of(R1.name, 8192)
    for one, cut in zip(whole, part, strict=True):
        assert (cut.rows, cut.hidden_bytes) == (one.rows, one.hidden_bytes)
        assert cut.intermediate_bytes * 8 == one.intermediate_bytes


def test_expert_parallel_cuts_the_experts() -> None:
    found = lines(savings([R1], max_num_batched_tokens=[8192], expert_parallel_size=16))
    assert found["proposed"][0] == 8192 * 8 + 127 * 16
    assert found["trtllm_old"][0] == 98_048  # sized for the experts of all ranks
    assert found["exact_distinct"][0] == 67_456


def test_order_and_baseline() -> None:
    found = savings([R1, ZOO["Kimi-K2"]], max_num_batched_tokens=[1, 8192], baseline="sglang")
    got = [(x.model.name, x.max_num_batched_tokens, x.formula.name) for x in found.lines]
    assert got == list(itertools.product(["DeepSeek-R1", "Kimi-K2"], [1, 8192], FORMULAS))
    assert lines(found)["sglang"][2] == 0
    assert lines(found)["vllm_env"][2] == -336 * MEBIBYTE
    assert [part.model.name for part in found.shards] == ["DeepSeek-R1", "Kimi-K2"]


def test_a_formula_that_some_routing_overruns_is_marked() -> None:
    model = ModelShape(name="m", hidden_size=64, intermediate_size=64, num_experts=128, topk=1, source="test")
    found = savings([model], max_num_batched_tokens=[49_407, 49_408])
    assert [x.safe for t in (49_407, 49_408) for x in found.of("m", t) if x.formula.name == "sglang"] == [
        True,
        False,
    ]
    assert all(x.safe for x in found.lines if x.formula.name != "sglang")


def test_models_that_the_ranks_do_not_divide_are_listed() -> None:
    found = savings([ZOO["gpt-oss-20b"], R1], max_num_batched_tokens=[8192], tensor_parallel_size=8)
    assert [(x.model.name, "no multiple of 16" in x.reason) for x in found.refused] == [("gpt-oss-20b", True)]
    assert {x.model.name for x in found.lines} == {"DeepSeek-R1"}
    assert found.to_json()["refused"][0]["model"] == "gpt-oss-20b"


def test_json() -> None:
    document = savings([R1], max_num_batched_tokens=[8192], tensor_parallel_size=2).to_json()
    assert document["version"] == 1
    assert document["config"] == {
        "max_num_batched_tokens": [8192],
        "tensor_parallel_size": 2,
        "expert_parallel_size": 1,
        "baseline": "vllm_env",
    }
    assert document["models"][0]["rank"] == {"intermediate_size": 1024, "num_experts": 256}
    assert document["savings"][0] == {
        "model": "DeepSeek-R1",
        "max_num_batched_tokens": 8192,
        "formula": "proposed",
        "rows": 98_048,
        "hidden_bytes": 43_925_504,
        "intermediate_bytes": 6_275_072,
        "peak_bytes": 43_925_504,
        "saved_bytes": 543_277_056,
        "over_exact": 1.0,
        "safe": True,
    }


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"baseline must be one of proposed, .*, got 'vllm'"):
        savings([R1], max_num_batched_tokens=[1], baseline="vllm")
    with pytest.raises(ValueError, match="two models are called 'DeepSeek-R1'"):
        savings([R1, R1], max_num_batched_tokens=[1])
    with pytest.raises(ValueError, match="tokens must be between 0"):
        savings([R1], max_num_batched_tokens=[-1])
