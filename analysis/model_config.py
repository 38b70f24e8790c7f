"""Read the sizes of a model's routed experts from a Hugging Face `config.json`.

| size | keys, the first that is there counts |
|---|---|
| hidden_size | moe_latent_size and routed_expert_hidden_size (experts behind a projection), hidden_size |
| num_experts | n_routed_experts (DeepSeek, GLM, Kimi, Nemotron), num_experts (Qwen, OLMoE, Kimi-Linear), num_local_experts (Mixtral, Llama-4, gpt-oss, MiniMax, Phi), moe_num_experts (ERNIE) |
| topk | num_experts_per_tok, num_experts_per_token, experts_per_token, moe_topk, moe_k |
| intermediate_size | moe_intermediate_size, expert_ffn_hidden_size; else intermediate_size, but only where that is the width of the routed experts: with num_local_experts, and for the model types of `EXPERTS_ARE_THE_MLP` |

`intermediate_size` is the width of the dense layers in the families that have both, so it never stands in for a missing
moe_intermediate_size there. A multimodal file keeps the language model under text_config, language_config or llm_config;
the sizes are all taken from the first object, from the outside inwards, that says how many experts there are. A null counts
as absent. Keys are looked up as written; nothing in the file is executed, and nothing beside it is read.
"""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from nvfp4_moe.analysis.zoo_shape import ModelShape

LARGEST_FILE = 4 << 20
"""Bytes of a configuration file that are read at most; real ones have a few thousand."""

HIDDEN_KEYS = ("moe_latent_size", "routed_expert_hidden_size", "hidden_size")
EXPERT_KEYS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
TOPK_KEYS = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_k")
WIDTH_KEYS = ("moe_intermediate_size", "expert_ffn_hidden_size")
NESTED_KEYS = ("text_config", "language_config", "llm_config")
EXPERTS_ARE_THE_MLP = frozenset({"olmoe", "flex_olmo"})
"""Model types with num_experts and no width of their own for experts: every MLP is a mixture of them."""

_DENSE_WIDTH = "intermediate_size"
_MOST_NESTING = 4


def read_model_config(path: Path) -> ModelShape:
    """Return the shape of the model that a `config.json` describes; its name is that of the folder, else of the file.

    Raises:
        OSError: the file cannot be read.
        TypeError, ValueError: no regular file, too large, not JSON, a missing key or a size that is not legal; the text
            names the file and the key.
    """
    document = _read_object(path)
    try:
        return model_from_config(document, name=_name(path), source=str(path))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{path}: {error}") from error


def model_from_config(config: Mapping[str, Any], *, name: str, source: str) -> ModelShape:
    """Return the shape that the keys of a configuration give.

    Raises:
        TypeError, ValueError: a missing key (named), or a size that is not legal.
    """
    inner = next((level for level in _levels(config) if _found(level, EXPERT_KEYS)), None)
    if inner is None:
        raise ValueError(
            f"no number of experts: none of {', '.join(EXPERT_KEYS)} is there, on top or in {', '.join(NESTED_KEYS)}"
            " (is it a mixture-of-experts model?)"
        )
    expert_key = _found(inner, EXPERT_KEYS)
    return ModelShape(
        name=name,
        hidden_size=_size(inner, HIDDEN_KEYS, wanted="hidden_size"),
        intermediate_size=_size(inner, _width_keys(inner, expert_key), wanted="moe_intermediate_size"),
        num_experts=_size(inner, EXPERT_KEYS, wanted="num_experts"),
        topk=_size(inner, TOPK_KEYS, wanted="num_experts_per_tok"),
        source=source,
    )


def _levels(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the object and those nested in it under `NESTED_KEYS`, from the outside inwards."""
    level = [config]
    for _ in range(_MOST_NESTING):
        yield from level
        level = [
            found for outer in level for key in NESTED_KEYS if isinstance(found := outer.get(key), Mapping)
        ]


def _found(config: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((key for key in keys if config.get(key) is not None), None)


def _width_keys(config: Mapping[str, Any], expert_key: str | None) -> tuple[str, ...]:
    model_type = config.get("model_type")  # of any type: the file is not ours
    if expert_key == "num_local_experts" or (
        isinstance(model_type, str) and model_type in EXPERTS_ARE_THE_MLP
    ):
        return (*WIDTH_KEYS, _DENSE_WIDTH)
    return WIDTH_KEYS


def _size(config: Mapping[str, Any], keys: tuple[str, ...], *, wanted: str) -> int:
    key = _found(config, keys)
    if key is None:
        raise ValueError(f"the key {wanted} is missing (looked for {', '.join(keys)})")
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{key} must be an integer, got {value!r:.60}")
    if value < 1:
        raise ValueError(f"{key} must be at least 1, got {value}")
    return value


def _name(path: Path) -> str:
    folder = path.resolve().parent.name
    return folder if path.name == "config.json" and folder else path.stem


# --- the file ----------------------------------------------------------------------------------------------


def _read_object(path: Path) -> dict[str, Any]:
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path}: no regular file; a Hugging Face config.json is wanted")
    with path.open("rb") as stream:
        data = stream.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise ValueError(f"{path}: more than {LARGEST_FILE >> 20} MiB, no config.json is that large")
    try:
        document = json.loads(
            data.decode("utf-8-sig"), parse_constant=_no_constant, object_pairs_hook=_unique
        )
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise TypeError(f"{path}: must be a JSON object, got {type(document).__name__}")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"the key {twice!r:.60} stands there twice")
    return found
