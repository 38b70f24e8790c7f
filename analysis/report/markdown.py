"""`to_markdown`: the report in GitHub's Markdown, short enough for a pull-request comment or a CI job summary.

Foreign text cannot become markup, a link, a mention or a reference to an issue: `tables.to_markdown` escapes what Markdown
and HTML are made of, and `_defused` breaks what GitHub finds in finished text (@name, #1, GH-1, www., ://, $math$, ~strike~)
with a word joiner, U+2060, which is not seen. Commands stand in fenced blocks, where nothing is interpreted. A report ends
before `MOST_CHARACTERS`: blocks that do not fit are left out, and the last line says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from nvfp4_moe.analysis.report.build import Report
from nvfp4_moe.analysis.report.run_view import OPEN, RunView, Tone
from nvfp4_moe.analysis.report.tables import saved_in_words, serving_table
from nvfp4_moe.analysis.report.text import printable, shown
from nvfp4_moe.analysis.tables import Table, summary_table
from nvfp4_moe.analysis.tables import to_markdown as table_to_markdown
from nvfp4_moe.verification.result import ClaimResult, Verdict

GITHUB_LIMIT = 65_536
"""Characters of a comment; a job summary may have a MiB."""
MOST_CHARACTERS = 60_000
MOST_CLAIMS = 20
"""Refuted or open claims that are listed."""
MOST_COMMANDS = 10
_LONGEST_CELL = 300
_LONGEST_COMMAND = 1_000
_MARKS = {
    Tone.GOOD: "\N{WHITE HEAVY CHECK MARK}",
    Tone.BAD: "\N{CROSS MARK}",
    Tone.OPEN: "\N{WARNING SIGN}",
    Tone.NONE: "\N{MEMO}",
}
_JOINER = "\u2060"
_TRIGGER = re.compile(r"[@#$~]|\bwww(?=\.)|:(?=/)|\bgh(?=-\d)", re.IGNORECASE)
_LINE_START = re.compile(r"^(?=[-+>=]|\d+[.)](\s|$))")


def to_markdown(report: Report) -> str:
    """Return the summary, at most `MOST_CHARACTERS` characters, one trailing newline."""
    kept: list[str] = []
    left_out = 0
    room = MOST_CHARACTERS
    for block in _blocks(report):
        if len(block) + 2 > room:
            left_out += 1
            continue
        kept.append(block)
        room -= len(block) + 2
    if left_out:
        kept.append(f"{left_out} parts are too long for this form; the HTML report has them.")
    return "\n\n".join(kept) + "\n"


def _blocks(report: Report) -> Iterator[str]:
    run = report.run
    if run is None:
        yield f"## {_MARKS[Tone.NONE]} nvfp4-moe: what sizing formulas cost"
        yield "No run of verify is part of this summary: no claim was checked."
    else:
        yield f"## {_MARKS[run.headline.tone]} nvfp4-moe: {_text(run.headline.title)}"
        yield from map(_text, run.headline.sentences)
        yield "\n".join(f"- **{_text(part.title)}**: {_text(part.summary)}" for part in run.parts)
        yield from _claims(run)
        yield from _commands(run)
    yield from (_text(saved_in_words(report.savings, model.name)) for model in report.models)
    yield _table(_short(summary_table(report.savings)))
    for model in report.models:
        lines = [line for line in report.served if line.model == model.name]
        yield _table(_short(serving_table(lines, max_num_batched_tokens=report.tokens)))
    yield _made_by(report)


def _claims(run: RunView) -> Iterator[str]:
    listed = [claim for claim in run.result.claims if _is_listed(claim)]
    if not listed:
        return
    rows = tuple(
        (
            str(claim.verdict) + ("" if claim.fails or claim.verdict in OPEN else ", fails nothing"),
            claim.id if claim.subject is None else f"{claim.id} ({claim.subject})",
            str(claim.method),
            claim.detail or claim.statement,
        )
        for claim in listed[:MOST_CLAIMS]
    )
    more = len(listed) - len(rows)
    yield _table(
        Table(
            title="What does not hold, or is open",
            columns=("verdict", "claim", "method", "what was found"),
            rows=rows,
            text_columns=frozenset(range(4)),
            notes=(f"{more:,} more are in the report",) if more else (),
        )
    )


def _is_listed(claim: ClaimResult) -> bool:
    return claim.verdict is Verdict.REFUTED or claim.fails or (claim.required and claim.verdict in OPEN)


def _commands(run: RunView) -> Iterator[str]:
    commands = list(dict.fromkeys(example.command for example in run.counterexamples if example.command))
    if not commands:
        return
    lines = [printable(command) for command in commands if len(command) <= _LONGEST_COMMAND]
    yield "Run the counterexamples again:"
    yield _fenced(lines[:MOST_COMMANDS])
    if len(commands) > MOST_COMMANDS:
        yield f"{len(commands) - MOST_COMMANDS:,} more are in the report."


def _made_by(report: Report) -> str:
    said = [f"{name} {version}" for name, version in report.environment[:3]]
    if report.run is not None:
        result = report.run.result
        said += [f"commit {result.git or 'unknown'}", f"device {result.device}", f"seed {result.seed}"]
        said.append(f"exit code {result.exit_code}")
        said.append(", ".join(f"{number} {verdict}" for verdict, number in report.run.counts.items()))
    return _text("; ".join(said))


# --- foreign text ------------------------------------------------------------------------------------------


def _short(table: Table) -> Table:
    """Return a table with no more notes than a reader of a comment wants."""
    return replace(table, notes=table.notes[:2])


def _table(table: Table) -> str:
    return table_to_markdown(
        replace(
            table,
            title=_defused(table.title),
            columns=tuple(map(_defused, table.columns)),
            rows=tuple(tuple(map(_defused, row)) for row in table.rows),
            notes=tuple(map(_defused, table.notes)),
        )
    )


def _text(text: str) -> str:
    """Return a text that stands by itself: defused and escaped as a cell of a table is."""
    defused = _LINE_START.sub(_JOINER, _defused(text))
    title = table_to_markdown(Table(title=defused, columns=("",), rows=())).split("\n", 1)[0]
    return title.removeprefix("**").removesuffix("**")


def _defused(text: str) -> str:
    line = shown(text, most=_LONGEST_CELL)
    return _TRIGGER.sub(lambda found: found[0] + _JOINER, line)


def _fenced(lines: list[str]) -> str:
    """Return a block of code whose fence is longer than any run of backticks in it."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}sh", *lines, fence])
