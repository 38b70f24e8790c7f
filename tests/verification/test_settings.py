"""Settings are validated at the door: kinds of values, maxima, and sizes that are only too large together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.verification import settings as limits
from nvfp4_moe.verification.settings import Settings


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"level": True}, r"level must be 1, 2 or 3, got True"),
        ({"level": 1.0}, r"level must be 1, 2 or 3, got 1\.0"),
        ({"level": 4}, r"level must be 1, 2 or 3, got 4"),
        ({"device": "tpu"}, r"device must be one of auto, cpu, cuda, got 'tpu'"),
        ({"device": 5}, r"device must be one of auto, cpu, cuda, got 5"),
        ({"bound": 5}, r"bound must be text, .*, got 5"),
        ({"bound": None}, r"bound must be text, .*, got None"),
        ({"budget": "10"}, r"budget must be a positive number of seconds .*, got '10'"),
        ({"budget": True}, r"budget must be a positive number of seconds .*, got True"),
        ({"budget": float("nan")}, r"budget must be a positive number of seconds .*, got nan"),
        ({"budget": 0}, r"budget must be a positive number of seconds .*, got 0"),
        ({"tight": "no"}, r"tight must be True or False, got 'no'"),
        ({"tight": 1}, r"tight must be True or False, got 1"),
        ({"subjects": "host"}, r"subjects must be a list or tuple of .*, got 'host'"),
        ({"subjects": [5]}, r"subjects\[0\] must be a Subject or a name, got 5"),
        ({"subjects": [""]}, r"subjects\[0\] must be a Subject or a name, got ''"),
        ({"subjects": ["host"], "against": 5}, r"against must be a Subject or a name, got 5"),
        ({"against": "host"}, r"against needs a subject"),
        ({"traces": "t.jsonl"}, r"traces must be a list or tuple of .*, got 't.jsonl'"),
        ({"traces": [5]}, r"traces\[0\] must be a path, got 5"),
        ({"expect": "x"}, r"expect must be a list or tuple of .*, got 'x'"),
        ({"expect": ["x"]}, r"expect\[0\] must be an Expectation, got 'x'"),
        ({"folder": 5}, r"folder must be a path, got 5"),
        ({"folder": None}, r"folder must be a path, got None"),
        ({"resume": 5}, r"resume must be a path, got 5"),
        ({"fail_on": "none"}, r"fail_on must be one of memory, .*, got 'none'"),
        ({"fail_on": 5}, r"fail_on must be one of memory, .*, got 5"),
        ({"seed": 1.5}, r"seed must be an integer, got 1\.5"),
        ({"seed": 2**63}, r"seed must be between 0 and 9223372036854775807, got"),
        ({"expert_parallel_size": 2}, "expert_parallel_size needs experts"),
        ({"experts": 4, "expert_parallel_size": 5}, r"expert_parallel_size \(5\) must be at most"),
    ],
)
def test_what_is_no_option_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        Settings(**options)


@pytest.mark.parametrize(
    ("name", "most"),
    [("experts", limits.MOST_EXPERTS), ("topk", limits.MOST_TOPK), ("tile", limits.LARGEST_TILE)],
)
def test_each_size_has_a_maximum(name: str, most: int) -> None:
    Settings(**{name: most})
    with pytest.raises(ValueError, match=f"{name} must be at most {most:,}, got {most + 1}"):
        Settings(**{name: most + 1})


def test_rows_of_a_batch_have_a_maximum() -> None:
    Settings(max_num_batched_tokens=10**12, topk=10**6)
    with pytest.raises(
        ValueError, match=r"max_num_batched_tokens \(10{12}\) x topk \(1000001\) must be at most"
    ):
        Settings(max_num_batched_tokens=10**12, topk=10**6 + 1)
    with pytest.raises(
        ValueError, match=r"max_num_batched_tokens \(10{18}\) x topk \(22, the largest tried\)"
    ):
        Settings(max_num_batched_tokens=10**18)


def test_legal_values_are_kept_in_the_form_that_the_checks_use() -> None:
    settings = Settings(
        folder="out", resume="a.sqlite", traces=["t.jsonl"], fail_on="bytes", subjects=["host"]
    )  # type: ignore[arg-type]
    assert (settings.folder, settings.resume, settings.traces) == (
        Path("out"),
        Path("a.sqlite"),
        (Path("t.jsonl"),),
    )
    assert settings.subjects == ("host",)
