"""What every family promises, what each is for, and that no case ever changes."""

from __future__ import annotations

import hashlib

import pytest
import torch

from nvfp4_moe.reference.padding import exact_any_rows
from nvfp4_moe.verification.families import EXPERTS, FAMILIES, CountsFamily, Draw, Family, Setting
from nvfp4_moe.verification.families.counted import boundary_totals
from nvfp4_moe.verification.families.lanes import Workspace
from nvfp4_moe.verification.families.measure import EVERYTHING, Wanted, measure_counts, measure_family
from nvfp4_moe.verification.families.tables import sigmoid, zipf_cumulative

NAMED = pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
COUNTED = [family for family in FAMILIES.values() if isinstance(family, CountsFamily)]
SETTINGS = [
    Setting(num_experts=experts, tokens=tokens, topk=topk, tile=tile)
    for experts in (1, 3, 17, 257)
    for tokens, topk in ((1, 1), (7, 2), (65, 3))
    for tile in (128, 3)
]


def supported(family: Family) -> list[Setting]:
    return [setting for setting in SETTINGS if family.supports(setting)]


def routed(family: Family, setting: Setting) -> torch.Tensor:
    return family.counts(0, 0, 64, setting)


@NAMED
def test_counts_depend_on_the_index_alone(family: Family) -> None:
    for setting in supported(family):
        whole = family.counts(1, 10, 6, setting)
        assert whole.shape == (6, setting.num_experts)
        assert torch.equal(torch.cat([family.counts(1, 10 + i, 1, setting) for i in range(6)]), whole)


@NAMED
def test_ids_have_the_counts_of_the_same_index(family: Family) -> None:
    for setting in supported(family):
        counts = family.counts(2, 5, 3, setting)
        for offset in range(3):
            ids = family.topk_ids(2, 5 + offset, setting)
            assert ids.dtype == torch.int32
            assert ids.shape[1] == setting.topk
            assert bool((ids >= -1).all())
            kept = ids[ids >= 0].long()
            assert torch.equal(torch.bincount(kept, minlength=setting.num_experts), counts[offset])
            if not isinstance(family, CountsFamily):
                assert ids.shape[0] == setting.tokens
            if family.ids == "distinct":
                assert all(len({*row} - {-1}) == sum(i >= 0 for i in row) for row in ids.tolist())


@NAMED
def test_a_batch_of_no_tokens(family: Family) -> None:
    setting = Setting(num_experts=4, tokens=0, topk=2)
    counts = family.counts(0, 0, 3, setting)
    assert counts.shape == (3, 4)
    assert bool((counts >= 0).all())
    if not isinstance(family, CountsFamily):
        assert int(counts.sum()) == 0
        assert family.topk_ids(0, 0, setting).shape == (0, 2)


@NAMED
def test_measures_are_those_of_the_counts(family: Family) -> None:
    space = Workspace.allocate()
    for setting in supported(family):
        plain = measure_counts(family.counts(0, 3, 12, setting), tile=setting.tile)
        measured = measure_family(family, 0, setting, 3, 12, space=space, wanted=EVERYTHING)
        for name in ("routed", "padded", "largest", "last", "last_rows"):
            assert torch.equal(getattr(measured, name), getattr(plain, name)), (setting, name)


def test_measures_across_chunks() -> None:
    """More cases than one chunk holds, and not a multiple of it."""
    setting = Setting(num_experts=256, tokens=1024, topk=6)
    family = FAMILIES["remainder_near"]
    measured = measure_family(family, 0, setting, 7, 2500, space=Workspace.allocate(), wanted=Wanted())
    plain = measure_counts(family.counts(0, 7, 2500, setting), tile=128)
    assert torch.equal(measured.routed, plain.routed)
    assert torch.equal(measured.padded, plain.padded)
    assert measured.last is measured.largest is None


@pytest.mark.parametrize("family", COUNTED, ids=lambda family: family.name)
@pytest.mark.parametrize("experts", EXPERTS)
def test_no_count_exceeds_what_the_lanes_state(family: CountsFamily, experts: int) -> None:
    space = Workspace.allocate()
    for tokens, topk in ((1, 1), (512, 2), (8192, 8), (1 << 20, 8)):
        for tile in (1, 2, 128, 4096):
            setting = Setting(num_experts=experts, tokens=tokens, topk=topk, tile=tile)
            lanes = family.lanes(Draw(0, family.name, setting, 0, 50), space)
            counts = lanes.counts()
            assert int(counts.min()) >= 0
            assert int(counts.max()) <= lanes.most
            in_lane = lanes.by_expert().long().view(50, -1, 4).sum(1)
            assert int(in_lane.max()) <= lanes.most_in_lane


PINNED = {
    "uniform": "c6c2cfda0384819a",
    "remainder_one": "278218fa5ecbbc55",
    "remainder_zero": "3b203bb6549d2de1",
    "remainder_near": "0893bc10df5ffbac",
    "collapse": "a9990d66f47c23d9",
    "attaining": "185295ed9c453271",
    "attaining_few": "463473ae389d15a3",
    "empty": "97afc08f9091926f",
    "boundary": "fb521aa2e3b379a5",
    "uniform_distinct": "ec933c239b15cd0f",
    "softmax_topk": "e7194a4ae66e85a9",
    "grouped_topk": "261fdec5042e9983",
    "expert_parallel": "ce717bca15bd209c",
    "zipf": "88d7c8168df02cba",
    "dirichlet_multinomial": "548f43eb85271986",
    "hash_duplicates": "05b08bc3d5cacf52",
    "padding_ids": "5522ca891b7b96c2",
}

SETTING = Setting(num_experts=16, tokens=400, topk=8)


def test_uniform_reaches_every_remainder() -> None:
    assert set((routed(FAMILIES["uniform"], SETTING) % 128).flatten().tolist()) == set(range(128))


@pytest.mark.parametrize(
    ("name", "remainders"),
    [("remainder_one", {1}), ("remainder_zero", {0}), ("remainder_near", {127, 0, 1, 2})],
)
@pytest.mark.parametrize("tile", [2, 3, 100, 128])
def test_remainders(name: str, remainders: set[int], tile: int) -> None:
    setting = Setting(num_experts=16, tokens=400, topk=8, tile=tile)
    wanted = {(remainder - 128) % tile if remainder == 127 else remainder % tile for remainder in remainders}
    assert set((routed(FAMILIES[name], setting) % tile).flatten().tolist()) == wanted


@pytest.mark.parametrize("name", ["attaining", "attaining_few"])
@pytest.mark.parametrize("experts", EXPERTS)
@pytest.mark.parametrize("tile", [2, 3, 128])
def test_attaining_families_attain(name: str, experts: int, tile: int) -> None:
    setting = Setting(num_experts=experts, tokens=3 * tile, topk=4, tile=tile)
    measured = measure_counts(routed(FAMILIES[name], setting), tile=tile)
    pairs = zip(measured.routed.tolist(), measured.padded.tolist(), strict=True)
    assert all(padded == exact_any_rows(total, experts, tile=tile) for total, padded in pairs)


def test_attaining_is_not_one_routing() -> None:
    counts = routed(FAMILIES["attaining"], SETTING)
    assert len({tuple(row) for row in counts.tolist()}) > 50
    assert len(set((counts.sum(1) % 128).tolist())) > 20


def test_collapse_uses_one_to_four_experts() -> None:
    used = (routed(FAMILIES["collapse"], SETTING) > 0).sum(1).tolist()
    assert set(used) >= {1, 2, 3}
    assert max(used) <= 4


def test_empty_leaves_three_in_four_without_rows() -> None:
    share = float((FAMILIES["empty"].counts(0, 0, 1000, SETTING) == 0).double().mean())
    assert 0.73 < share < 0.77


def test_boundary_reaches_every_boundary_total() -> None:
    totals = set(FAMILIES["boundary"].counts(0, 0, 4000, SETTING).sum(1).tolist())
    assert totals == set(boundary_totals(SETTING))
    assert totals >= {0, 1, 127, 128, 129, 15, 16, 17, 16 * 128, 16 * 128 + 1}


def test_expert_parallel_drops_about_three_in_four() -> None:
    ids = torch.stack([FAMILIES["expert_parallel"].topk_ids(0, i, SETTING) for i in range(20)])
    assert 0.7 < float((ids == -1).double().mean()) < 0.8


def test_padding_ids_has_all_three_kinds() -> None:
    last = [FAMILIES["padding_ids"].topk_ids(0, i, SETTING) for i in range(60)]
    assert any(bool((ids[-1] == 0).all()) for ids in last)
    assert any(bool((ids[-1] == -1).all()) for ids in last)
    assert any(bool((ids[-1] == ids[0]).all()) and len(set(ids[0].tolist())) > 1 for ids in last)


def test_hash_routing_repeats_ids_and_tokens() -> None:
    rows = FAMILIES["hash_duplicates"].topk_ids(0, 0, SETTING).tolist()
    assert any(len(set(row)) < len(row) for row in rows)
    assert len({tuple(row) for row in rows}) <= 64


def test_zipf_is_skewed_and_dirichlet_varies() -> None:
    zipf = FAMILIES["zipf"].counts(0, 0, 200, SETTING).double().sort(dim=1, descending=True).values.mean(0)
    assert 0.22 < float(zipf[0] / zipf.sum()) < 0.37  # 1 / H_16 = 0.296
    dirichlet = FAMILIES["dirichlet_multinomial"].counts(0, 0, 200, SETTING).double()
    assert float(dirichlet.amax(1).mean() / dirichlet.mean()) > 2.5  # H_16 = 3.4 for a flat Dirichlet


def test_grouped_topk_stays_in_half_of_the_groups() -> None:
    setting = Setting(num_experts=256, tokens=20, topk=8)
    ids = FAMILIES["grouped_topk"].topk_ids(0, 0, setting)
    assert all(len({expert // 32 for expert in row}) <= 4 for row in ids.tolist())


def test_sigmoid_table() -> None:
    table = sigmoid()
    assert table.shape == (1024,)
    assert int(table[512]) == 1 << 15
    assert bool((table.diff() >= 0).all())
    assert int(table[512 + 64]) == 47_911  # 65536 / (1 + exp(-1)) = 47911.05
    assert bool((table[1:] + table[1:].flip(0) == 1 << 16).all())  # sigmoid(x) + sigmoid(-x) = 1


def test_zipf_table() -> None:
    assert zipf_cumulative(3).tolist() == [1 << 20, 3 << 19, (3 << 19) + (1 << 20) // 3]


def test_topk_needs_enough_experts_where_distinct() -> None:
    setting = Setting(num_experts=2, tokens=4, topk=3)
    assert not FAMILIES["softmax_topk"].supports(setting)
    assert FAMILIES["zipf"].supports(setting)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"num_experts": 0}, "num_experts must be between 1"),
        ({"num_experts": 10**30}, "num_experts must be between 1"),
        ({"num_experts": 8193}, "at most 8192, got 8193"),
        ({"tokens": -1}, "tokens must be between 0"),
    ],
)
def test_bad_settings_are_refused(sizes: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Setting(**({"num_experts": 4, "tokens": 4} | sizes))


def digest(family: Family) -> str:
    hashed = hashlib.sha256()
    for experts in (1, 8, 257):
        for tile in (128, 3):
            setting = Setting(num_experts=experts, tokens=65, topk=1, tile=tile)
            hashed.update(str(family.counts(7, 3, 4, setting).tolist()).encode())
            hashed.update(str(family.topk_ids(7, 4, setting).tolist()).encode())
    return hashed.hexdigest()[:16]


@pytest.mark.parametrize("field", [1, 0x3, 0xFF, 0x83, 0x7F80, 0xF00, 0x183, 0x3FFF, 0x8001])
@pytest.mark.parametrize("experts", [1, 4, 5, 12, 257])
def test_fields_are_random_bits_of_each_lane_alone(field: int, experts: int) -> None:
    """Every bit of the field takes both values in every lane, nothing else is set, and cases do not depend on the range."""
    setting = Setting(num_experts=experts, tokens=65)
    space = Workspace.allocate()

    def lanes(start: int, count: int) -> torch.Tensor:
        words = Draw(7, "fields", setting, start, count).lane_fields(space, field).clone()
        return words.view(torch.int16)[:, :experts].long() & 0xFFFF

    drawn = lanes(0, 200)
    assert torch.equal(drawn & field, drawn)
    for bit in (1 << at for at in range(16) if field >> at & 1):
        share = ((drawn & bit) != 0).double().mean(0)
        assert float(share.min()) > 0.3
        assert float(share.max()) < 0.7
    assert torch.equal(lanes(50, 7), drawn[50:57])
    if experts > 1:  # lanes of one case differ as much as lanes of different cases
        assert not torch.equal(drawn[:, 0], drawn[:, -1])


@NAMED
def test_cases_never_change(family: Family) -> None:
    """A change here changes every case of every recorded campaign: give the family a new name instead."""
    assert digest(family) == PINNED[family.name]
