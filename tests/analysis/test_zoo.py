"""The zoo: its sizes, its names, and the division of shapes over ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.analysis.zoo import ZOO, find_model
from nvfp4_moe.analysis.zoo_shape import ModelShape, shard


def model(**changes: Any) -> ModelShape:
    sizes: dict[str, Any] = {"hidden_size": 2880, "intermediate_size": 2880, "num_experts": 60, "topk": 4}
    return ModelShape(name="m", source="test", **(sizes | changes))


def test_known_models() -> None:
    """Sizes that are well known, written a second time."""
    sizes = {m.name: (m.hidden_size, m.intermediate_size, m.num_experts, m.topk) for m in ZOO.values()}
    assert len(sizes) == 18
    assert sizes["DeepSeek-R1"] == (7168, 2048, 256, 8)
    assert sizes["Kimi-K2"] == (7168, 2048, 384, 8)
    assert sizes["Mixtral-8x7B"] == (4096, 14336, 8, 2)
    assert sizes["Qwen1.5-MoE-A2.7B"] == (2048, 1408, 60, 4)
    assert sizes["gpt-oss-120b"] == (2880, 2880, 128, 4)
    assert sizes["Llama-4-Maverick"] == (5120, 8192, 128, 1)
    assert sizes["Nemotron-3-Nano"] == (2688, 1856, 128, 6)


@pytest.mark.parametrize("name", ZOO)
def test_every_model_can_be_had_by_name_and_says_where_it_is_from(name: str) -> None:
    assert find_model(name) is find_model(name.upper()) is ZOO[name]
    assert ZOO[name].source.startswith("config.json of ")
    assert find_model(ZOO[name].source.removeprefix("config.json of ")) is ZOO[name]
    assert shard(ZOO[name]).sizing(1).num_experts == ZOO[name].num_experts


def test_other_names() -> None:
    assert find_model("deepseek-v3") is find_model("deepseek-ai/DeepSeek-V3") is ZOO["DeepSeek-R1"]


def test_files_and_folders(tmp_path: Path) -> None:
    config = {"hidden_size": 64, "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert find_model(str(tmp_path)) == find_model(str(tmp_path / "config.json"))
    assert find_model(str(tmp_path)).name == tmp_path.name


def test_a_file_goes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("GLM-4.5").write_text("{}")
    with pytest.raises(ValueError, match="no number of experts"):
        find_model("GLM-4.5")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("DeepSeek-R2", "no model is called 'DeepSeek-R2'; did you mean DeepSeek-R1?"),
        ("nothing like it", "no model is called 'nothing like it'; known are DeepSeek-R1, Kimi-K2"),
        ("absent/config.json", "no such file: 'absent/config.json'"),
        ("", "no such file: ''"),
        ("a\0b", r"no model is called 'a\\x00b'"),
        ("x" * 10_000, "no model is called 'xxx"),
    ],
)
def test_unknown_names(given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        find_model(given)
    assert len(str(caught.value)) < 600


def test_links_that_lead_nowhere_are_files(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("nowhere")
    for name in ("loop", "gone"):
        with pytest.raises(OSError, match=name):
            find_model(str(tmp_path / name))


@pytest.mark.parametrize(
    ("tensor", "expert", "columns", "experts"),
    [(1, 1, 2880, 60), (2, 1, 1440, 60), (4, 1, 720, 60), (1, 8, 2880, 8), (2, 60, 1440, 1)],
)
def test_division(tensor: int, expert: int, columns: int, experts: int) -> None:
    """Experts that do not divide leave the first ranks with one more: 60 over 8 ranks is 8, 8, 8, 8, 7, 7, 7, 7."""
    part = shard(model(), tensor_parallel_size=tensor, expert_parallel_size=expert)
    assert (part.intermediate_size, part.num_experts) == (columns, experts)
    sizing = part.sizing(100)
    assert (sizing.num_experts, sizing.num_global_experts, sizing.topk) == (experts, 60, 4)
    assert part.hidden_row_bytes == 180  # 2880 / 16: the hidden width is never cut
    assert part.intermediate_row_bytes == -(-columns // 64) * 4


def test_a_row_of_scales_is_padded_to_four_columns() -> None:
    """720 / 16 = 45 scales lie in 48 bytes."""
    assert shard(model(), tensor_parallel_size=4).intermediate_row_bytes == 48


@pytest.mark.parametrize(
    ("tensor", "expert", "said"),
    [
        (7, 1, "intermediate_size 2880 does not divide by tensor_parallel_size 7"),
        (8, 1, "intermediate_size / 8 is 360, no multiple of 16, .* padded first, to 368 or more"),
        (5760, 1, "does not divide by tensor_parallel_size 5760"),
        (1, 61, r"expert_parallel_size \(61\) must be at most the number of experts \(60\)"),
        (0, 1, "tensor_parallel_size must be between 1 and"),
        (1, 0, "expert_parallel_size must be between 1 and"),
    ],
)
def test_what_does_not_divide_is_refused(tensor: int, expert: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        shard(model(), tensor_parallel_size=tensor, expert_parallel_size=expert)


@pytest.mark.parametrize("columns", [464, 720, 1440, 360, 180, 232, 116, 88])
def test_only_whole_scale_blocks_pass(columns: int) -> None:
    """Widths that tensor parallelism really reaches: three are legal, five must be padded by weight preparation."""
    whole = columns in (464, 720, 1440)
    wide = model(intermediate_size=8 * columns)
    if whole:
        assert shard(wide, tensor_parallel_size=8).intermediate_size == columns
    else:
        with pytest.raises(ValueError, match="no multiple of 16"):
            shard(wide, tensor_parallel_size=8)
