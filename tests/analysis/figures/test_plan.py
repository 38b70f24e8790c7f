"""Which figures a run has, and that their names and words are fit for files and for reading aloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

from matplotlib.figure import Figure

from nvfp4_moe.analysis.figures.plan import plan_figures
from nvfp4_moe.analysis.figures.render import to_png, to_svg
from nvfp4_moe.analysis.figures.theme import THEMES
from nvfp4_moe.analysis.savings import Savings, savings
from nvfp4_moe.analysis.savings_padding import PaddingUse
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.analysis.zoo_shape import Shard, shard


def test_all_four_kinds(zoo_savings: Savings, uses: list[PaddingUse], r1: Shard) -> None:
    planned = plan_figures(zoo_savings, uses=uses, shards=[r1])
    assert [p.name for p in planned] == [
        "bytes_by_model-8192",
        "rows_by_tokens-deepseek-r1",
        "padding_used",
        "looseness-topk8",
    ]
    assert all(isinstance(p.draw(THEMES["light"]), Figure) for p in planned)
    assert "DeepSeek-R1 vllm_env 560.0, sglang 224.0, proposed 41.9" in planned[0].label
    assert "proposed from 32,520 to" in planned[1].label


def test_names_that_differ_in_case_and_signs_alone_are_numbered() -> None:
    models = [replace(ZOO["DeepSeek-R1"], name=name) for name in ("a", "A-3", "a!", "A", "a-2")]
    found = savings(models, max_num_batched_tokens=[1])
    names = [p.name for p in plan_figures(found, shards=found.shards) if p.name.startswith("rows_by_tokens")]
    assert names == [f"rows_by_tokens-{slug}" for slug in ("a", "a-3", "a-2", "a-4", "a-2-2")]


def test_only_what_there_are_numbers_for(zoo_savings: Savings) -> None:
    assert [p.name for p in plan_figures(zoo_savings)] == ["bytes_by_model-8192"]


def test_one_for_each_model_topk_and_m() -> None:
    models = [ZOO["DeepSeek-R1"], ZOO["Kimi-K2"], ZOO["Mixtral-8x7B"]]
    found = savings(models, max_num_batched_tokens=[1, 2])
    names = [p.name for p in plan_figures(found, shards=found.shards)]
    assert names[:2] == ["bytes_by_model-1", "bytes_by_model-2"]
    assert names[-2:] == ["looseness-topk8", "looseness-topk2"]
    assert len(names) == 7


def test_names_from_outside_become_harmless_and_stay_apart() -> None:
    one = ZOO["Mixtral-8x7B"]
    models = [replace(one, name=name) for name in ("../../a b", "a*b", "", "\x1b[31m" + "x" * 300)]
    found = savings(models, max_num_batched_tokens=[1])
    names = [p.name for p in plan_figures(found, shards=[shard(m) for m in models]) if "rows" in p.name]
    assert names == [
        "rows_by_tokens-a-b",
        "rows_by_tokens-a-b-2",
        "rows_by_tokens-model",
        f"rows_by_tokens-31m{'x' * 37}",
    ]


NAMES = ("$a$ b_{", "$", "\x1b[31m\0", "\udcff", "x" * 300, "<&>\"'", " ")
NOT_IN_THE_FONT = "\u4e2d\u6587"


def test_names_from_outside_are_drawn_harmlessly(
    uses: list[PaddingUse], assert_legible: Callable[[Figure], None]
) -> None:
    models = [replace(ZOO["Mixtral-8x7B"], name=name) for name in NAMES]
    found = savings(models, max_num_batched_tokens=[1])
    named = [replace(uses[0], name=name) for name in NAMES]
    for planned in plan_figures(found, uses=[*named, *uses[1:]], shards=found.shards[:1])[:3]:
        figure = planned.draw(THEMES["light"])
        assert_legible(figure)
        figure.set_layout_engine("none")  # as it was drawn
        ElementTree.fromstring(to_svg(figure, name=planned.name, label=planned.label).encode())


def test_a_name_that_the_font_lacks_warns_nobody() -> None:
    found = savings([replace(ZOO["Mixtral-8x7B"], name=NOT_IN_THE_FONT)], max_num_batched_tokens=[1])
    (planned,) = plan_figures(found)
    figure = planned.draw(THEMES["light"])
    assert NOT_IN_THE_FONT in to_svg(figure, name=planned.name, label=planned.label)
    assert to_png(figure, dpi=30)
