"""`to_html`: the report as one HTML file that needs no other and runs no script.

The template is filled by jinja2 with escaping on; every text is made fit to be shown first (`text.shown`). Only markup that
was checked (`inline_figures.check_svg`) goes in as markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
from markupsafe import Markup

from nvfp4_moe import __version__
from nvfp4_moe.analysis.report.build import Report
from nvfp4_moe.analysis.report.inline_figures import InlineFigure
from nvfp4_moe.analysis.report.run_view import OPEN, Headline, Tone
from nvfp4_moe.analysis.report.tables import engines_table, saved_in_words, serving_table
from nvfp4_moe.analysis.report.text import printable, shown
from nvfp4_moe.analysis.tables import Table, formula_table, padding_table, summary_table
from nvfp4_moe.verification.result import PASSES, Finding, Verdict

_BAD_CELL = re.compile(r"(NO|UNSAFE|REFUTED)\b")
_GOOD_CELL = re.compile(r"(yes|safe|PROVED)\b")
_PLACES = {"bytes_by_model": "bytes", "padding_used": "routings"}
"""Where a figure stands, by the begin of its name; the others stand at the end of the section on memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """An entry of the contents."""

    id: str
    title: str


def to_html(report: Report) -> str:
    """Return the page as text, to be written as UTF-8."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nvfp4_moe.analysis.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "verdict_class": _verdict_class,
        "cell_class": _cell_class,
        "block": _block,
        "markup": Markup,  # for figures alone, which are checked when they are made
    }
    return environment.get_template("page.html.jinja").render(_context(report))


def _context(report: Report) -> dict[str, Any]:
    return {
        "package_version": __version__,
        "report": report,
        "run": report.run,
        "headline": _headline(report),
        "sections": _sections(report),
        "figures": _figures(report.figures),
        "full_tables": [formula_table(report.savings, model.name, report.tokens) for model in report.models],
        "savings_said": [saved_in_words(report.savings, model.name) for model in report.models],
        "summary": summary_table(report.savings),
        "other_tables": _other_tables(report),
        "serving": _serving(report),
        "padding": padding_table(report.uses) if report.uses else None,
        "engines": engines_table(report.engines) if report.engines else None,
        "classes": list(Finding),
        "passes": PASSES,
        "open": OPEN,
        "refuted": Verdict.REFUTED,
    }


def _headline(report: Report) -> Headline:
    if report.run is not None:
        return report.run.headline
    return Headline(
        tone=Tone.NONE,
        title="Scale buffers of NVFP4 experts: what the formulas cost, and where they hold",
        sentences=(
            "No run of verify is part of this page: it says nothing about anybody's kernel, and no claim was checked.",
        ),
    )


def _sections(report: Report) -> list[_Section]:
    titles = {
        "claims": "Claims" if report.run is not None else "",
        "conformance": "Conformance of each subject" if report.run is not None else "",
        "counterexamples": "Counterexamples" if report.run is not None else "",
        "memory": "What a formula costs",
        "serving": "Is it safe for a server?",
        "routings": "Padding that routings use" if report.uses else "",
        "engines": "Engines side by side" if report.engines else "",
        "environment": "Environment, and how to make this again",
    }
    return [_Section(id=name, title=title) for name, title in titles.items() if title]


def _figures(figures: Sequence[InlineFigure]) -> dict[str, list[InlineFigure]]:
    found: dict[str, list[InlineFigure]] = {"bytes": [], "memory": [], "routings": []}
    for figure in figures:
        found[_PLACES.get(figure.name.split("-", 1)[0], "memory")].append(figure)
    return found


def _other_tables(report: Report) -> list[Table]:
    """Return the full tables of the models that are shown in short."""
    shown_in_full = {model.name for model in report.models}
    return [
        formula_table(report.savings, part.model.name, report.tokens)
        for part in report.savings.shards
        if part.model.name not in shown_in_full
    ]


def _serving(report: Report) -> list[Table]:
    return [
        serving_table(
            [line for line in report.served if line.model == model.name],
            max_num_batched_tokens=report.tokens,
        )
        for model in report.models
    ]


# --- filters -----------------------------------------------------------------------------------------------


def _finalize(value: Any) -> Any:
    """Make what a template prints fit to be shown; markup that was checked is as it is."""
    return value if isinstance(value, Markup) else shown(value)


def _block(text: str) -> Markup:
    """Return text of several lines, escaped; its lines stay lines."""
    return Markup("\n").join(map(printable, text.split("\n")))  # join escapes each line


def _verdict_class(verdict: Verdict) -> str:
    if verdict in PASSES:
        return "good"
    return "bad" if verdict is Verdict.REFUTED else "open"


def _cell_class(cell: str) -> str:
    if _BAD_CELL.match(cell):
        return "bad"
    return "good" if _GOOD_CELL.match(cell) else ""
