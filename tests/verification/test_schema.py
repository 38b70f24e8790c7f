"""The shipped JSON schemas accept what the code writes and refuse what it never should."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from nvfp4_moe.verification import schema
from nvfp4_moe.verification.bound_table import Configuration, document
from nvfp4_moe.verification.bound_witness import RELATIONS
from nvfp4_moe.verification.bounds import check_attained, find_counterexample
from nvfp4_moe.verification.expressions import parse_bound
from nvfp4_moe.verification.result import SCHEMA_VERSION, ClaimResult, Finding, Method, Result, Verdict
from nvfp4_moe.verification.worst_case import IDS

VERIFY = Draft202012Validator(schema.load("verify"))
BOUND = Draft202012Validator(schema.load("bound"))


def claim(**changes: Any) -> ClaimResult:
    fields: dict[str, Any] = {
        "id": "padding.bound",
        "statement": "no routing needs more rows than the bound",
        "method": Method.SEARCH,
        "verdict": Verdict.HELD,
        "required": True,
        "cases": 7,
        "seconds": 0.25,
    }
    return ClaimResult(**fields | changes)


def run_of(*claims: ClaimResult, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"version": "0.1.0", "seed": 0, "device": "cpu", "git": None, "claims": claims}
    text = Result(**fields | changes).dumps()
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def full_run() -> dict[str, Any]:
    """Return a run with every optional key and both kinds of witness a bound has."""
    refuted = find_counterexample(parse_bound("65536*topk"))
    loose = check_attained(parse_bound("proposed"), tight=True)
    return run_of(
        claim(verdict=refuted.verdict, witness=refuted.witness, detail=refuted.detail),
        claim(id="padding.attained", verdict=loose.verdict, witness=loose.witness, required=False),
        claim(
            id="quant.golden",
            method=Method.CONFORMANCE,
            verdict=Verdict.REFUTED,
            subject="mine",
            finding=Finding.MEMORY,
            witness={"kind": "quant", "rows": 3},
        ),
        git="0123456789abcdef0123456789abcdef01234567",
        tables=("rcp_h200",),
        interrupted=True,
        device="cuda",
        seed=2**63 - 1,
    )


@pytest.mark.parametrize("name", schema.NAMES)
def test_schema_is_a_schema(name: str) -> None:
    Draft202012Validator.check_schema(schema.load(name))
    assert schema.load(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_unknown_schema_is_refused() -> None:
    with pytest.raises(ValueError, match=r"one of verify, bound, .*got '\.\./verify'"):
        schema.load("../verify")


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_and_method_is_accepted(verdict: Verdict, method: Method) -> None:
    VERIFY.validate(run_of(claim(verdict=verdict, method=method)))


@pytest.mark.parametrize("finding", Finding)
def test_every_finding_is_accepted(finding: Finding) -> None:
    VERIFY.validate(run_of(claim(finding=finding, subject="mine")))


def test_runs_are_accepted() -> None:
    VERIFY.validate(run_of())
    VERIFY.validate(full_run())


def test_lists_of_the_schema_are_those_of_the_code() -> None:
    properties = schema.load("verify")["$defs"]["claim"]["properties"]
    assert properties["method"]["enum"] == [str(method) for method in Method]
    assert properties["verdict"]["enum"] == [str(verdict) for verdict in Verdict]
    assert properties["finding"]["enum"] == [str(finding) for finding in Finding]
    witness = schema.load("verify")["$defs"]["bound_witness"]["properties"]
    assert tuple(witness["relation"]["enum"]) == RELATIONS
    assert tuple(witness["ids"]["enum"]) == IDS
    assert schema.load("verify")["properties"]["schema"]["const"] == SCHEMA_VERSION


def put(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(run: dict[str, Any]) -> None:
        at: Any = run
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value

    return change


def drop(*path: str | int) -> Callable[[dict[str, Any]], None]:
    def change(run: dict[str, Any]) -> None:
        at: Any = run
        for step in path[:-1]:
            at = at[step]
        del at[path[-1]]

    return change


@pytest.mark.parametrize(
    "break_it",
    [
        *(
            drop(key)
            for key in ("schema", "version", "seed", "device", "git", "tables", "interrupted", "claims")
        ),
        put("schema", value=2),
        put("seed", value=-1),
        put("seed", value="0"),
        put("git", value="main"),
        put("tables", value=None),
        put("extra", value=1),
        *(
            drop("claims", 0, key)
            for key in ("id", "statement", "method", "required", "verdict", "cases", "seconds")
        ),
        put("claims", 0, "id", value="Padding Bound"),
        put("claims", 0, "verdict", value="PASSED"),
        put("claims", 0, "method", value="guess"),
        put("claims", 0, "cases", value=-1),
        put("claims", 0, "cases", value=1.5),
        put("claims", 0, "seconds", value=None),
        put("claims", 0, "required", value="yes"),
        put("claims", 0, "extra", value=1),
        put("claims", 2, "finding", value="style"),
        put("claims", 2, "subject", value=""),
        drop("claims", 2, "witness", "kind"),
        *(
            drop("claims", 0, "witness", key)
            for key in (
                "topk",
                "num_experts",
                "tile",
                "tokens_per_expert",
                "rows",
                "bound",
                "max_num_batched_tokens",
            )
        ),
        put("claims", 0, "witness", "tokens_per_expert", value=[-1]),
        put("claims", 0, "witness", "tokens_per_expert", value=[]),
        put("claims", 0, "witness", "topk", value=0),
        put("claims", 0, "witness", "topk_ids", value=[[-2]]),
        put("claims", 1, "witness", "relation", value="near"),
        put("claims", 1, "witness", "placement", value="anywhere"),
    ],
)
def test_broken_runs_are_refused(break_it: Callable[[dict[str, Any]], None]) -> None:
    run = full_run()
    broken = copy.deepcopy(run)
    break_it(broken)
    assert broken != run
    with pytest.raises(ValidationError):
        VERIFY.validate(broken)


CONFIGURATION = Configuration(max_num_batched_tokens=163_840, topk=1, experts=128)


@pytest.mark.parametrize("tokens", [None, 0, 64])
@pytest.mark.parametrize(
    "configuration",
    [
        CONFIGURATION,
        Configuration(
            max_num_batched_tokens=8192, topk=8, experts=256, expert_parallel_size=16, hidden_size=7168
        ),
        Configuration(max_num_batched_tokens=1, topk=9, experts=8, tile=1),
    ],
)
def test_bound_documents_are_accepted(configuration: Configuration, tokens: int | None) -> None:
    BOUND.validate(json.loads(json.dumps(document(configuration, tokens=tokens))))


@pytest.mark.parametrize(
    "break_it",
    [
        *(drop(key) for key in ("config", "rows", "formulas", "witness")),
        put("rows", "proposed", value=1.5),
        put("rows", value={}),
        put("config", "topk", value=0),
        put("config", "extra", value=0),
        put("formulas", "proposed", "safe", value="yes"),
        drop("formulas", "sglang", "guard_tokens"),
        put("witness", "tokens_per_expert", value=[]),
        drop("call", "rows"),
    ],
)
def test_broken_bound_documents_are_refused(break_it: Callable[[dict[str, Any]], None]) -> None:
    broken = json.loads(json.dumps(document(CONFIGURATION, tokens=64)))
    break_it(broken)
    with pytest.raises(ValidationError):
        BOUND.validate(broken)
