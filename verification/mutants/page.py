"""The page of faults: what happened in public, our variants of it, what refutes each, and what carries which class.

What happened, the variants and the claims that must refute them come from the catalogue; the claim that did, the
smallest input and the matrix from the JSON of a run. `static_lines` is the part that the catalogue alone decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nvfp4_moe.verification.mutants.catalogue import catalogue, public_faults, right_subjects
from nvfp4_moe.verification.mutants.matrix import carried_by_one, needed_by
from nvfp4_moe.verification.mutants.mutant import FAULT_CLASSES, Mutant, PublicFault
from nvfp4_moe.verification.mutants.smallest import smallest_input

COMMAND = "nvfp4-moe mutants --matrix --page docs/faults.md"

_STATIC_CELLS, _FOUND_CELLS = 3, 2
"""Of a row with a variant or a right subject: what the catalogue says of it, and what a run found."""
_MATRIX = "## What carries which class"

Document = Mapping[str, Any]


def page(document: Document) -> str:
    """Return the page as Markdown.

    Args:
        document: the JSON of `nvfp4-moe mutants`; with "harness_variants" where it was run with `--matrix`.
    """
    found = {entry["id"]: entry for entry in document.get("mutants", ())}
    lines = [*_introduction(document)]
    for letter in FAULT_CLASSES:
        lines += _fault_class(letter, found)
    lines += _right(document)
    if document.get("harness_variants"):
        lines += _matrix(document["harness_variants"])
    return "\n".join(lines) + "\n"


def static_lines(text: str) -> list[str]:
    """Return the lines of a page that the catalogue decides, without the cells that a run fills."""
    kept = text.partition(_MATRIX)[0].splitlines()
    return [_static(line) for line in kept if line and not line.startswith("Run: ")]


def refreshed(text: str) -> str:
    """Return a page whose static part is the catalogue's today; what its run found stays where the variant stays."""
    found = {
        row[0]: row[-_FOUND_CELLS:] for row in map(_cells, text.splitlines()) if row[0].startswith("| `")
    }
    run = [line for line in text.splitlines() if line.startswith("Run: ")]
    lines: list[str] = []
    for line in page({}).splitlines():
        row = _cells(line)
        known = found.get(row[0])
        lines.append(" | ".join([*row[:-_FOUND_CELLS], *known]) if known else line)
        if line.startswith("This page is generated"):
            lines += ["", *run] if run else []
    _, mark, matrix = text.partition(_MATRIX)
    return "\n".join(lines) + "\n" + mark + matrix


def _cells(line: str) -> list[str]:
    return line.split(" | ")


def _static(line: str) -> str:
    cells = line.split(" | ")
    return " | ".join(cells[:_STATIC_CELLS]) if line.startswith("| `") else line


def _introduction(document: Document) -> Iterator[str]:
    yield "# Faults of block-scaled MoE code, and what refutes them"
    yield ""
    yield (
        "Public projects have shipped the faults below, most of them past their own tests. For each class this project"
        " keeps known-wrong variants of right code, each in the weakest form that still is the fault, and its ordinary"
        " checks must refute every one: the same cases as `nvfp4-moe verify` at level 1, none made for a variant."
        " A star marks a mechanism of its own."
    )
    yield ""
    yield f"This page is generated: `{COMMAND}`. Variants live in `verification/mutants/`."
    yield ""
    if document:
        count = len(document.get("mutants", ()))
        yield (
            f"Run: version {document['version']}, device {document['device']}, seed {document['seed']},"
            f" {count} variants."
        )
        yield ""


def _fault_class(letter: str, found: Mapping[str, Document]) -> Iterator[str]:
    name, _, what = FAULT_CLASSES[letter].partition(": ")
    yield f"## {letter}. {name}"
    yield ""
    yield f"{what[0].upper()}{what[1:]}."
    yield ""
    yield "| fault | what happened in public | where |"
    yield "|---|---|---|"
    for fault in public_faults().values():
        if fault.id[0] == letter:
            yield f"| {fault.id}{'★' * fault.star} | {_cell(fault.what)} | {_links(fault)} |"
    yield ""
    yield "| variant | what differs from the right code | stands for | refuted by | smallest input |"
    yield "|---|---|---|---|---|"
    for mutant in catalogue():
        if mutant.fault_class == letter:
            yield _variant(mutant, found.get(mutant.id, {}))
    yield ""


def _variant(mutant: Mutant, found: Document) -> str:
    check = f"`{found['check']}`" if found.get("check") else str(found.get("verdict", ""))
    cells = (
        f"`{mutant.id}`",
        _cell(mutant.change),
        " ".join(mutant.stands_for),
        check,
        _cell(smallest_input(found.get("witness"))),
    )
    return f"| {' | '.join(cells)} |"


def _links(fault: PublicFault) -> str:
    return " ".join(f"[{_short(link)}]({link})" for link in fault.links)


def _short(link: str) -> str:
    """Return "project#number" for a link to a thread, else its last part."""
    parts = link.rstrip("/").split("/")
    return f"{parts[-3]}#{parts[-1]}" if parts[-1].isdigit() and len(parts) > 3 else parts[-1]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _right(document: Document) -> Iterator[str]:
    found = {entry["id"]: entry for entry in document.get("right_subjects", ())}
    yield "## Right code, written differently"
    yield ""
    yield "False alarms count as much: these run every case of level 1 and must pass."
    yield ""
    yield "| subject | what it does differently | devices | verdict | cases |"
    yield "|---|---|---|---|---|"
    for entry in right_subjects():
        judged = found.get(entry.id, {})
        verdict = {"HELD": "passes"}.get(judged.get("verdict", ""), judged.get("verdict", ""))
        cases = f"{judged['cases']:,}" if judged.get("cases") else ""
        yield f"| `{entry.id}` | {_cell(entry.change)} | {', '.join(entry.devices)} | {verdict} | {cases} |"
    yield ""


def _matrix(entries: Sequence[Document]) -> Iterator[str]:
    class_of = {mutant.id: mutant.fault_class for mutant in catalogue()}
    counts = needed_by(entries, class_of)
    letters = [letter for letter in FAULT_CLASSES if any(letter in by_class for by_class in counts.values())]
    yield _MATRIX
    yield ""
    yield (
        f"The harness weakened by one habit at a time, against the {entries[0]['tried']} wrong kernels that the whole"
        " harness refutes on the CPU: how many of a class escape then, in all, and how many escape no other weakening."
        " Each is tried with its own smallest input and with the smallest of the other cases. Bounds, models, index"
        " expressions and fake kernels have checks of their own, which the tables above name."
    )
    yield ""
    yield f"| without it | {' | '.join(letters)} | all | no other |"
    yield f"|---|{'---|' * (len(letters) + 2)}"
    times = Counter(name for entry in entries for name in entry["escaped"])
    for entry in entries:
        by_class = counts[entry["id"]]
        cells = [str(by_class.get(letter, "")) for letter in letters]
        alone = sum(times[name] == 1 for name in entry["escaped"])
        yield f"| {_cell(entry['change'])} | {' | '.join(cells)} | {len(entry['escaped'])} | {alone or ''} |"
    yield ""
    yield from _told(entries, counts)


def _told(entries: Iterable[Document], counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    change = {entry["id"]: entry["change"] for entry in entries}
    idle = [change[variant] for variant, by_class in counts.items() if not by_class]
    if idle:
        yield f"No class needs these, other checks see the same variants: {'; '.join(idle)}."
        yield ""
    single = carried_by_one(counts)
    if single:
        yield "Classes of which variants escape under one weakening alone:"
        yield ""
        yield from (f"- {letter}: {change[variant]}" for letter, variant in single.items())
        yield ""
    for entry in entries:
        if entry["escaped"]:
            yield f"- {entry['change']}: {', '.join(f'`{name}`' for name in entry['escaped'])}"
