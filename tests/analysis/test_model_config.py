"""Configurations of every family are read, what is missing is named, hostile files are one error."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.analysis.model_config import LARGEST_FILE, model_from_config, read_model_config

Sizes = tuple[int, int, int, int]

DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "n_group": 8,
}
QWEN = {
    "model_type": "qwen3_moe",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
LLAMA4 = {
    "model_type": "llama4",
    "vision_config": {"hidden_size": 1408, "intermediate_size": 5632},
    "text_config": {
        "model_type": "llama4_text",
        "hidden_size": 5120,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "num_local_experts": 128,
        "num_experts_per_tok": 1,
    },
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_local_experts": 32,
    "experts_per_token": 4,
    "num_experts_per_tok": 4,
}
OLMOE = {
    "model_type": "olmoe",
    "hidden_size": 2048,
    "intermediate_size": 1024,
    "num_experts": 64,
    "num_experts_per_tok": 8,
}
KIMI_LINEAR = {
    "model_type": "kimi_linear",
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "moe_intermediate_size": 1024,
    "num_experts": 256,
    "num_experts_per_token": 8,
}
KIMI_VISION = {"model_type": "kimi_k25", "text_config": DEEPSEEK | {"n_routed_experts": 384}}
NEMOTRON = {
    "model_type": "nemotron_h",
    "hidden_size": 2688,
    "intermediate_size": 1856,
    "moe_intermediate_size": 1856,
    "moe_latent_size": None,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
}

FAMILIES: dict[str, tuple[dict[str, Any], Sizes]] = {
    "deepseek": (DEEPSEEK, (7168, 2048, 256, 8)),
    "qwen": (QWEN, (4096, 1536, 128, 8)),
    "mixtral": (MIXTRAL, (4096, 14336, 8, 2)),
    "llama4": (LLAMA4, (5120, 8192, 128, 1)),
    "gpt_oss": (GPT_OSS, (2880, 2880, 32, 4)),
    "glm": (DEEPSEEK | {"model_type": "glm4_moe", "hidden_size": 5120}, (5120, 2048, 256, 8)),
    "minimax": (
        MIXTRAL | {"model_type": "minimax_m2", "hidden_size": 3072, "intermediate_size": 1536},
        (3072, 1536, 8, 2),
    ),
    "olmoe": (OLMOE, (2048, 1024, 64, 8)),
    "kimi_linear": (KIMI_LINEAR, (2304, 1024, 256, 8)),
    "kimi_vision": (KIMI_VISION, (7168, 2048, 384, 8)),
    "nemotron": (NEMOTRON, (2688, 1856, 128, 6)),
    "latent experts": (NEMOTRON | {"moe_latent_size": 1024}, (1024, 1856, 128, 6)),
    "omni, three deep": ({"text_config": {"llm_config": QWEN}}, (4096, 1536, 128, 8)),
}


def read(config: dict[str, Any]) -> Sizes:
    shape = model_from_config(config, name="m", source="test")
    return shape.hidden_size, shape.intermediate_size, shape.num_experts, shape.topk


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_of_every_family(family: str) -> None:
    config, sizes = FAMILIES[family]
    assert read(config) == sizes


@pytest.mark.parametrize(
    ("config", "dropped", "named"),
    [
        (DEEPSEEK, "hidden_size", "the key hidden_size is missing"),
        (DEEPSEEK, "moe_intermediate_size", "the key moe_intermediate_size is missing"),
        (DEEPSEEK, "n_routed_experts", "no number of experts: none of n_routed_experts, num_experts"),
        (DEEPSEEK, "num_experts_per_tok", "the key num_experts_per_tok is missing"),
        (QWEN, "moe_intermediate_size", "the key moe_intermediate_size is missing"),
        (
            MIXTRAL,
            "intermediate_size",
            "looked for moe_intermediate_size, expert_ffn_hidden_size, intermediate",
        ),
        (OLMOE, "intermediate_size", "the key moe_intermediate_size is missing"),
    ],
)
@pytest.mark.parametrize("how", ["absent", "null"])
def test_a_missing_key_is_named(config: dict[str, Any], dropped: str, named: str, how: str) -> None:
    """The dense width never stands in for a missing expert width where a family has both."""
    rest = {key: value for key, value in config.items() if key != dropped}
    with pytest.raises(ValueError, match=named):
        read(rest if how == "absent" else rest | {dropped: None})


@pytest.mark.parametrize("model_type", [["olmoe"], {"olmoe": 1}, 3, True])
def test_a_model_type_of_another_type_is_none_that_is_known(model_type: Any) -> None:
    with pytest.raises(ValueError, match="the key moe_intermediate_size is missing"):
        read(OLMOE | {"model_type": model_type})


def test_an_inner_object_does_not_fill_gaps_of_the_outer_one() -> None:
    """Sizes come from one object: a vision tower's hidden_size must not be taken for the language model's."""
    outer = {key: value for key, value in QWEN.items() if key != "hidden_size"}
    with pytest.raises(ValueError, match="hidden_size is missing"):
        read(outer | {"text_config": {"hidden_size": 64}, "vision_config": {"hidden_size": 32}})


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"n_routed_experts": "256"}, TypeError, "n_routed_experts must be an integer, got '256'"),
        ({"n_routed_experts": True}, TypeError, "n_routed_experts must be an integer, got True"),
        ({"num_experts_per_tok": [8, 8]}, TypeError, "num_experts_per_tok must be an integer"),
        ({"hidden_size": 7168.0}, TypeError, "hidden_size must be an integer, got 7168.0"),
        ({"hidden_size": -16}, ValueError, "hidden_size must be at least 1, got -16"),
        ({"hidden_size": 7160}, ValueError, "hidden_size is 7160, no multiple of 16"),
        ({"hidden_size": 10**30}, ValueError, "hidden_size must be between 1 and"),
        ({"hidden_size": 1 << 40}, ValueError, "hidden_size must be at most 16,777,216"),
        ({"n_routed_experts": 1 << 30}, ValueError, "num_experts must be at most 1,048,576"),
        ({"num_experts_per_tok": 257}, ValueError, r"topk \(257\) is above num_experts \(256\)"),
    ],
)
def test_wrong_sizes(change: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        read(DEEPSEEK | change)


class TestFiles:
    """What is read from disk: only a JSON object of a sensible size."""

    def write(self, folder: Path, text: str | bytes) -> Path:
        path = folder / "config.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def test_name_and_source(self, tmp_path: Path) -> None:
        folder = tmp_path / "My-MoE"
        folder.mkdir()
        path = self.write(folder, json.dumps(DEEPSEEK))
        shape = read_model_config(path)
        assert (shape.name, shape.source) == ("My-MoE", str(path))
        other = tmp_path / "draft.json"
        other.write_bytes(
            b"\xef\xbb\xbf" + json.dumps(QWEN).encode()
        )  # written by an editor with a mark in front
        assert read_model_config(other).name == "draft"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "not JSON"),
            ("{", "not JSON"),
            (b"\xff\xfe{}", "not JSON"),
            ("[" * 100_000, "not JSON"),
            ('{"hidden_size": NaN}', "NaN is not JSON"),
            ('{"hidden_size": ' + "9" * 5_000 + "}", "not JSON"),
            ('{"num_experts": 8, "num_experts": 16}', "the key 'num_experts' stands there twice"),
            ("[]", "must be a JSON object, got list"),
            ('"x"', "must be a JSON object, got str"),
            ("{}", "is it a mixture-of-experts model?"),
            ('{"num_experts": 8}', "the key hidden_size is missing"),
        ],
    )
    def test_malformed(self, text: str | bytes, said: str, tmp_path: Path) -> None:
        path = self.write(tmp_path, text)
        with pytest.raises((ValueError, TypeError)) as caught:
            read_model_config(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert said in str(caught.value)
        assert len(str(caught.value)) < 600 + len(str(path))

    def test_a_huge_file_costs_no_memory(self, tmp_path: Path) -> None:
        path = tmp_path / "config.json"
        with path.open("wb") as file:
            file.truncate(1 << 40)  # sparse
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="more than 4 MiB"):
                read_model_config(path)
            assert tracemalloc.get_traced_memory()[1] < 4 * LARGEST_FILE
        finally:
            tracemalloc.stop()

    def test_what_is_no_file(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
            with pytest.raises(ValueError, match="no regular file"):
                read_model_config(path)
        with pytest.raises(FileNotFoundError):
            read_model_config(tmp_path / "absent.json")
