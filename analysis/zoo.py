"""Shapes of public mixture-of-experts models, by name.

Sizes are those of each model's configuration file on Hugging Face; `source` names the repository. Sizes of routed
experts only. The order is that of every table.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from nvfp4_moe.analysis.model_config import read_model_config
from nvfp4_moe.analysis.zoo_shape import ModelShape

_Entry = tuple[str, str, int, int, int, int, str]

_ENTRIES: tuple[_Entry, ...] = (
    # name, repository, hidden, intermediate, experts, topk, why it is a useful case
    ("DeepSeek-R1", "deepseek-ai/DeepSeek-R1", 7168, 2048, 256, 8, "grouped routing: 4 of 8 groups"),
    ("Kimi-K2", "moonshotai/Kimi-K2-Instruct", 7168, 2048, 384, 8, "most experts at that width"),
    ("Qwen3-235B-A22B", "Qwen/Qwen3-235B-A22B", 4096, 1536, 128, 8, ""),
    ("Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B", 2048, 768, 128, 8, ""),
    ("Qwen3-Next-80B-A3B", "Qwen/Qwen3-Next-80B-A3B-Instruct", 2048, 512, 512, 10, "512 experts"),
    ("Qwen1.5-MoE-A2.7B", "Qwen/Qwen1.5-MoE-A2.7B", 2048, 1408, 60, 4, "60 experts: no multiple of 16"),
    ("OLMoE-1B-7B", "allenai/OLMoE-1B-7B-0924", 2048, 1024, 64, 8, ""),
    ("Mixtral-8x7B", "mistralai/Mixtral-8x7B-v0.1", 4096, 14336, 8, 2, "few, wide experts"),
    ("Mixtral-8x22B", "mistralai/Mixtral-8x22B-v0.1", 6144, 16384, 8, 2, "few, wide experts"),
    ("Llama-4-Scout", "meta-llama/Llama-4-Scout-17B-16E", 5120, 8192, 16, 1, "router weight on the input"),
    ("Llama-4-Maverick", "meta-llama/Llama-4-Maverick-17B-128E", 5120, 8192, 128, 1, "one expert a token"),
    ("gpt-oss-20b", "openai/gpt-oss-20b", 2880, 2880, 32, 4, "width a multiple of 64, not of 128"),
    ("gpt-oss-120b", "openai/gpt-oss-120b", 2880, 2880, 128, 4, "width a multiple of 64, not of 128"),
    ("GLM-4.5", "zai-org/GLM-4.5", 5120, 1536, 160, 8, ""),
    ("GLM-4.5-Air", "zai-org/GLM-4.5-Air", 4096, 1408, 128, 8, ""),
    ("MiniMax-M2", "MiniMaxAI/MiniMax-M2", 3072, 1536, 256, 8, ""),
    ("DeepSeek-V2-Lite", "deepseek-ai/DeepSeek-V2-Lite", 2048, 1408, 64, 6, ""),
    ("Nemotron-3-Nano", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 2688, 1856, 128, 6, "no gate"),
)

ZOO: dict[str, ModelShape] = {
    name: ModelShape(
        name=name,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_experts=experts,
        topk=topk,
        source=f"config.json of {repository}",
        note=note,
    )
    for name, repository, hidden, intermediate, experts, topk, note in _ENTRIES
}
"""Every model by its name."""

_ALIASES = {"deepseek-v3": "DeepSeek-R1", "deepseek-ai/deepseek-v3": "DeepSeek-R1"} | {
    key.lower(): name for name, repository, *_ in _ENTRIES for key in (name, repository)
}


def find_model(given: str) -> ModelShape:
    """Return the model that a user means: a name or repository of the zoo (any case), or a configuration file.

    Args:
        given: a name, the path of a Hugging Face `config.json`, or of a folder that holds one. What exists as a path is
            read as one. Nothing is downloaded.

    Raises:
        OSError: the file is there and cannot be read.
        TypeError, ValueError: no such name and no such file, or a file that is not understood.
    """
    file = config_file(given)
    if file is not None:
        return read_model_config(file)
    name = _ALIASES.get(given.lower())
    if name is None:
        raise ValueError(_unknown(given))
    return ZOO[name]


def config_file(given: str) -> Path | None:
    """Return the file that `find_model` reads for `given`, or None where it takes it as a name."""
    if os.path.isdir(given):
        return Path(given, "config.json")
    return Path(given) if os.path.lexists(given) else None  # False for what no file system takes as a name


def _unknown(given: str) -> str:
    shown = f"{given:.60}"
    if not given or given.endswith(".json") or given.startswith((".", "/")):
        return f"no such file: {shown!r}"
    close = difflib.get_close_matches(given.lower()[:60], _ALIASES, n=1, cutoff=0.5)
    near = f"did you mean {_ALIASES[close[0]]}? " if close else ""
    return f"no model is called {shown!r}; {near}known are {', '.join(ZOO)}, or give a config.json"
