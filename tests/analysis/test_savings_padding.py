"""Padding that routings use: counted by hand on small traces, between nothing and the worst case everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from nvfp4_moe.analysis import savings_padding
from nvfp4_moe.analysis.savings_padding import PaddingUse, family_padding, trace_padding
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.analysis.zoo_shape import shard
from nvfp4_moe.verification.families import FAMILIES
from nvfp4_moe.verification.trace_model import TraceError
from nvfp4_moe.verification.traces import open_trace

RECORDED = Path(__file__).resolve().parents[2] / "examples" / "router_traces"


def write(folder: Path, steps: Sequence[Sequence[Sequence[int]]]) -> Path:
    path = folder / "trace.npz"
    np.savez(path, topk_ids=np.array(steps, dtype=np.int64), num_experts=4)
    return path


def use_of(path: Path, **options: int) -> PaddingUse:
    return trace_padding(open_trace(path), name="t", **options)


def test_counted_by_hand(tmp_path: Path) -> None:
    """A token on experts 0 and 1 opens two tiles: 254 rows of padding of 4 * 127. Two tokens alike are a profiling pass."""
    use = use_of(write(tmp_path, [[[0, 1], [2, 3]], [[0, 1], [0, 2]], [[1, 1], [1, 1]]]))
    allowed = 4 * 127
    assert use.shares == ((3 * 128 - 4) / allowed, (4 * 128 - 4) / allowed)
    assert use.worst == ((4 * 128 - 4) / allowed,) * 2
    assert (use.num_experts, use.topk, use.kind) == (4, 2, "trace")


def test_batches_and_dropped_ids(tmp_path: Path) -> None:
    path = write(tmp_path, [[[0, -1], [1, -1]], [[0, -1], [2, 3]]])
    use = use_of(path, max_num_batched_tokens=4)
    assert use.shares == ((4 * 128 - 5) / 508,)
    assert use.batching == "batches of up to 4"


@pytest.mark.parametrize("layer", ["layer0", "layer12"])
@pytest.mark.parametrize("tokens", [None, 256])
def test_recorded_traces(layer: str, tokens: int | None) -> None:
    trace = open_trace(RECORDED / f"qwen1.5-moe-a2.7b.{layer}.npz")
    use = trace_padding(trace, name=layer, max_num_batched_tokens=tokens)
    assert len(use.shares) == {("layer0", None): 104, ("layer12", None): 129}.get(
        (layer, tokens), len(use.shares)
    )
    assert 0 < use.shares[0] <= use.quantiles[3] <= use.shares[-1] <= max(use.worst) <= 1


@pytest.mark.parametrize(
    ("steps", "said"),
    [([[[0, 1], [0, 1]]], "no pass that is not a profiling pass"), ([[[0, 1]]] * 3, "more than 2 passes")],
)
def test_unusable_traces(
    steps: list[list[list[int]]], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(savings_padding, "MOST_PASSES", 2)
    with pytest.raises(TraceError, match=said):
        use_of(write(tmp_path, steps))


class TestFamilies:
    """Every family that the sizes allow; all shares under the bound."""

    uses = family_padding(shard(ZOO["Mixtral-8x7B"]), max_num_batched_tokens=64, cases=8)

    def test_all_are_drawn(self) -> None:
        assert [use.name for use in self.uses] == list(FAMILIES)
        assert {(use.num_experts, use.topk, use.batching, len(use.shares)) for use in self.uses} == {
            (8, 2, "64 tokens", 8)
        }

    @pytest.mark.parametrize("use", uses, ids=lambda use: use.name)
    def test_under_the_bound(self, use: PaddingUse) -> None:
        assert 0 <= use.shares[0] <= use.shares[-1] <= max(use.worst) <= 1

    def test_the_extremes_are_reached(self) -> None:
        by_name = {use.name: use for use in self.uses}
        assert by_name["remainder_zero"].shares[-1] == 0
        assert by_name["remainder_one"].shares == by_name["remainder_one"].worst
        assert by_name["remainder_one"].shares[-1] == 1

    def test_a_seed_decides(self) -> None:
        part = shard(ZOO["Mixtral-8x7B"])
        again, other = (
            family_padding(part, max_num_batched_tokens=64, seed=seed, cases=8) for seed in (0, 1)
        )
        assert again == self.uses != other

    def test_sizes_without_routings(self) -> None:
        """With one expert on a rank no token has two distinct ones."""
        part = shard(ZOO["Mixtral-8x7B"], expert_parallel_size=8)
        names = {use.name for use in family_padding(part, max_num_batched_tokens=4, cases=2)}
        assert "zipf" in names
        assert "softmax_topk" not in names

    def test_json_has_quantiles_in_place_of_samples(self) -> None:
        document = self.uses[0].to_json()
        assert list(document["share"]) == ["0", "0.05", "0.25", "0.5", "0.75", "0.95", "1"]
        assert document["routings"] == 8
