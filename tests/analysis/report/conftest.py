"""Runs and reports that are made once, and a reader of HTML that needs no library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import Any

import pytest

from nvfp4_moe.analysis import engines
from nvfp4_moe.analysis.report import Report, build_report, memory_of, to_html, view_run
from nvfp4_moe.analysis.savings_padding import PaddingUse
from nvfp4_moe.verification.grid import Grid
from nvfp4_moe.verification.result import ClaimResult, Finding, Method, Outcome, Result, Verdict

SMALL = Grid(max_num_batched_tokens=(1, 8192), topk=(1, 8), experts=(8, 2048))
VOID = frozenset(
    {"meta", "link", "br", "img", "input", "hr", "path", "use", "rect", "circle", "stop", "image"}
)

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(1)> \"' {{ 7*7 }} {% raw %} \x1b[2J \u202e \ud800 &amp; "

WITNESS = {
    "kind": "bound",
    "relation": "overrun",
    "expression": "max_num_batched_tokens*topk + 126*num_experts",
    "ids": "any",
    "placement": "packed",
    "max_num_batched_tokens": 1,
    "topk": 1,
    "num_experts": 1,
    "num_global_experts": 1,
    "tile": 128,
    "tokens": 1,
    "tokens_per_expert": [1],
    "rows": 128,
    "bound": 127,
    "topk_ids": [[0]],
}
SUBJECT_WITNESS = {
    "kind": "subject",
    "subject": "mine:WRONG",
    "level": 1,
    "number": 3,
    "case": {"kind": "quant", "k": 16, "view": ""},
    "check": "golden",
    "finding": "bytes",
    "text": "output_scale wrong",
    "where": {"output": "output_scale", "expert": 5, "row": 8, "scale_column": 0},
}


@dataclass(eq=False)
class Element:
    """One element of a page."""

    tag: str
    attributes: dict[str, str | None]
    parents: tuple[Element, ...] = field(repr=False)
    pieces: list[str] = field(default_factory=list, repr=False)

    @property
    def text(self) -> str:
        """Return the text inside, white space joined."""
        return " ".join("".join(self.pieces).split())


@dataclass(eq=False)
class Page(HTMLParser):
    """The elements of an HTML text in their order; `faults` has tags that are not closed as they were opened."""

    elements: list[Element] = field(default_factory=list, repr=False)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs), tuple(self._open))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs), tuple(self._open)))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self._open or self._open[-1].tag != tag:
            self.faults.append(tag)
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.pieces.append(data)

    def all(self, *tags: str) -> list[Element]:
        """Return the elements of these tags in their order."""
        return [element for element in self.elements if element.tag in tags]

    def texts(self, *tags: str) -> list[str]:
        """Return the texts of these tags."""
        return [element.text for element in self.all(*tags)]


@pytest.fixture(scope="session")
def parsed() -> Callable[[str], Page]:
    def parse(html: str) -> Page:
        page = Page()
        page.feed(html)
        page.close()
        assert page.faults == []
        assert page._open == []
        return page

    return parse


@pytest.fixture(scope="session")
def claim() -> Callable[..., ClaimResult]:
    def make(**changes: Any) -> ClaimResult:
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

    return make


@pytest.fixture(scope="session")
def run_of() -> Callable[..., Result]:
    def make(*claims: ClaimResult, **changes: Any) -> Result:
        fields: dict[str, Any] = {"version": "0.1.0", "seed": 0, "device": "cpu", "git": None}
        return Result(**fields | {"claims": claims} | changes)

    return make


@pytest.fixture(scope="session")
def refuted_run(claim: Callable[..., ClaimResult], run_of: Callable[..., Result]) -> Result:
    """Return a run with a broken bound, a broken subject, and our own code that holds."""
    return run_of(
        claim(verdict=Verdict.PROVED, method=Method.PROOF),
        claim(verdict=Verdict.REFUTED, witness=WITNESS, detail="127 rows for 128"),
        claim(
            id="quant.golden",
            method=Method.CONFORMANCE,
            verdict=Verdict.REFUTED,
            subject="mine:WRONG",
            finding=Finding.BYTES,
            witness=SUBJECT_WITNESS,
            detail="output_scale wrong at expert 5",
        ),
        claim(id="quant.golden", method=Method.CONFORMANCE, subject="reference"),
        git="0123456789abcdef",
        seed=7,
    )


@pytest.fixture(scope="session")
def use() -> PaddingUse:
    return PaddingUse(
        name="recorded",
        kind="trace",
        num_experts=8,
        topk=2,
        batching="passes as recorded",
        shares=(0.25, 0.5, 0.5),
        worst=(0.9, 1.0, 1.0),
    )


@pytest.fixture(scope="session")
def report(refuted_run: Result, use: PaddingUse) -> Report:
    """Return a report with everything in it: figures where matplotlib is there, engines of a small grid, not proved."""
    made = build_report(
        memory_of(max_num_batched_tokens=8192),
        full=1,
        run=view_run(refuted_run, bound="proposed"),
        uses=[use],
        brief=True,
        missing=["Something is left out."],
        commands=[("This page", "nvfp4-moe report")],
    )
    with pytest.MonkeyPatch.context() as patch:
        skipped = Outcome(verdict=Verdict.SKIPPED, cases=0, detail="z3-solver is not installed")
        patch.setattr(engines, "prove_formula", lambda name, tile: skipped)
        lines = engines.engine_lines(grid=SMALL)
    return replace(made, engines=tuple(lines))


@pytest.fixture(scope="session")
def hostile(report: Report, claim: Callable[..., ClaimResult], run_of: Callable[..., Result]) -> str:
    """Return a page in which everything that comes from outside is hostile."""
    run = run_of(
        claim(
            statement=HOSTILE,
            detail=HOSTILE * 200,
            subject=HOSTILE,
            verdict=Verdict.REFUTED,
            finding=Finding.BYTES,
            expected=HOSTILE,
            witness={"kind": "bound", HOSTILE: HOSTILE, "where": {HOSTILE: [HOSTILE]}},
        ),
        version=f"1.0{HOSTILE}",
        device=HOSTILE,
        tables=(HOSTILE,),
    )
    model = replace(report.models[0], name=HOSTILE)
    lines = tuple(replace(line, shard=replace(line.shard, model=model)) for line in report.savings.lines[:12])
    return to_html(
        replace(
            report,
            run=view_run(run, bound=HOSTILE, notes=[HOSTILE]),
            savings=replace(report.savings, lines=lines),
            models=(model,),
            served=tuple(replace(line, model=HOSTILE) for line in report.served),
            uses=tuple(replace(use, name=HOSTILE, batching=HOSTILE) for use in report.uses),
            figures=(),
            missing=(HOSTILE,),
            environment=((HOSTILE, HOSTILE),),
            commands=((HOSTILE, HOSTILE),),
        )
    )
