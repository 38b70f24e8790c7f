"""Put the output of a real run into the documents, so that no number in them is typed by hand.

Usage:
    make verify VERIFY_ARGS="--report build/report"
    nvfp4-moe verify --subject examples/subjects/torch_quant.py:WRONG --report build/wrong
    python tools/fill_docs.py build/report build/wrong

A report folder holds `verify.txt` and `verify.json` of one run. README.md gets excerpts of the texts (the first run's
lines about padding, the second's table of subjects, the last lines of both; what is left out is marked),
paper_notes.md a table of all claims of the first run. All go between marks, `<!-- NAME: begin -->` and
`<!-- NAME: end -->`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "$ make verify"
SUBJECT_COMMAND = "$ nvfp4-moe verify --subject examples/subjects/torch_quant.py:WRONG"
LEFT_OUT = "  [...]"
SHOWN_CLAIMS = ("padding.bound", "padding.attained", "padding.disjoint", "index.no_wrap")
LAST_LINES = 2


def between_marks(document: str, name: str, content: str) -> str:
    """Return the document with `content` between its two marks; raises ValueError when a mark is missing."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if begin not in document or end not in document:
        raise ValueError(f"the marks of {name!r} are missing")
    head, rest = document.split(begin, 1)
    _, tail = rest.split(end, 1)
    return f"{head}{begin}\n{content.rstrip()}\n{end}{tail}"


def excerpt(text: str) -> str:
    """Return the lines of a run's output that the README shows, in a block of code."""
    lines = [line.rstrip() for line in text.splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith("Formula"))
    last = next(number for number in range(first, len(lines)) if lines[number].startswith("└"))
    shown = [COMMAND, LEFT_OUT, *lines[first : first + 4]]
    keep = False
    for line in lines[first + 4 : last]:
        cells = [cell.strip() for cell in line.strip("│").split("│")]
        if cells[0]:
            keep = cells[1] in SHOWN_CLAIMS
        if keep:
            shown.append(line)
        elif shown[-1] != LEFT_OUT:
            shown.append(LEFT_OUT)
    shown += [lines[last], LEFT_OUT, *[line for line in lines if line][-LAST_LINES:]]
    return "\n".join(["```text", *shown, "```"])


def subject_excerpt(text: str) -> str:
    """Return the table of subjects and the last lines of a run, in a block of code."""
    lines = [line.rstrip() for line in text.splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith("Subjects under test"))
    last = next(number for number in range(first, len(lines)) if lines[number].startswith("└"))
    ending = [line for line in lines if line][-LAST_LINES:]
    return "\n".join(["```text", SUBJECT_COMMAND, *lines[first : last + 1], LEFT_OUT, *ending, "```"])


def verdict_table(result: dict[str, Any]) -> str:
    """Return every claim of a run as a Markdown table, below a line that says which run it was."""
    git = result["git"]
    rows = [
        f"| `{c['id']}` | {c.get('subject', '')} | {c['method']} | {c['verdict']} | {c['cases']:,} |"
        for c in result["claims"]
    ]
    return "\n".join(
        [
            f"Version {result['version']}{f', commit {git[:12]}' if git else ''}, seed {result['seed']}, "
            f"device {result['device']}.",
            "",
            "| claim | subject | method | verdict | cases |",
            "|---|---|---|---|---|",
            *rows,
        ]
    )


def main(arguments: list[str]) -> int:
    """Fill both documents from two report folders."""
    if len(arguments) != 2:
        print("usage: python tools/fill_docs.py REPORT_DIR SUBJECT_REPORT_DIR", file=sys.stderr)
        return 2
    report, subject = (Path(name) for name in arguments)
    text = (report / "verify.txt").read_text(encoding="utf-8")
    subject_text = (subject / "verify.txt").read_text(encoding="utf-8")
    result = json.loads((report / "verify.json").read_text(encoding="utf-8"))
    for name, mark, content in (
        ("README.md", "sample", excerpt(text)),
        ("README.md", "subject sample", subject_excerpt(subject_text)),
        ("paper_notes.md", "verdicts", verdict_table(result)),
    ):
        path = ROOT / name
        path.write_text(between_marks(path.read_text(encoding="utf-8"), mark, content), encoding="utf-8")
        print(f"{name}: {mark} filled")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
