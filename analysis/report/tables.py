"""Tables of the report that no other command has: serving set-ups, and engines side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nvfp4_moe.analysis.capacity import Capacity, Judged, Verdict, capacity
from nvfp4_moe.analysis.engines import DECODE_TOKENS, TYPICAL_TOKENS, EngineLine
from nvfp4_moe.analysis.savings import Savings
from nvfp4_moe.analysis.serving_flags import ServingFlags
from nvfp4_moe.analysis.tables import Table, mebibytes
from nvfp4_moe.analysis.zoo_shape import ModelShape, shard

RANKS = 8
"""GPUs of the set-ups that have more than one: those of a common node."""
SERVED_FORMULAS = ("proposed", "vllm_env", "loose", "exact_any")
"""Formulas of the table of set-ups."""

_SETUPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("one GPU", {}),
    (f"--tensor-parallel-size {RANKS}", {"tensor_parallel_size": RANKS}),
    (
        f"--tensor-parallel-size {RANKS} --enable-expert-parallel",
        {"tensor_parallel_size": RANKS, "enable_expert_parallel": True},
    ),
    (f"--data-parallel-size {RANKS}", {"data_parallel_size": RANKS}),
    (
        f"--data-parallel-size {RANKS} --enable-expert-parallel",
        {"data_parallel_size": RANKS, "enable_expert_parallel": True},
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One serving set-up of one model."""

    model: str
    setup: str
    """vLLM's flags beside --max-num-batched-tokens."""
    answer: Capacity | None
    """None: engines refuse the set-up, `reason` says why."""
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: that of `nvfp4-moe capacity`, under what it is for."""
        about = {"model": self.model, "setup": self.setup}
        if self.answer is None:
            return about | {"refused": self.reason}
        return about | self.answer.to_json()


def served(model: ModelShape, *, max_num_batched_tokens: int) -> list[Served]:
    """Return what `capacity` answers for the usual set-ups of a model."""
    found = []
    for setup, given in _SETUPS:
        flags = ServingFlags(max_num_batched_tokens=max_num_batched_tokens, **given)
        try:
            cut = 1 if flags.enable_expert_parallel else flags.ranks
            shard(model, tensor_parallel_size=cut, expert_parallel_size=flags.expert_parallel_size)
            answer = capacity(flags, experts=model.num_experts, topk=model.topk)
        except ValueError as error:
            found.append(Served(model=model.name, setup=setup, answer=None, reason=str(error)))
        else:
            found.append(Served(model=model.name, setup=setup, answer=answer))
    return found


def saved_in_words(savings: Savings, model: str) -> str:
    """Return what the proposed formula costs and saves for a model at the first M, in a sentence."""
    tokens = savings.max_num_batched_tokens[0]
    line = next(x for x in savings.of(model, tokens) if x.formula.name == "proposed")
    before = mebibytes(line.peak_bytes + line.saved_bytes)
    change = f"{mebibytes(abs(line.saved_bytes))} MiB {'less' if line.saved_bytes >= 0 else 'more'}"
    return (
        f"{model} at {tokens:,} batched tokens: proposed gives {line.rows:,} rows, {mebibytes(line.peak_bytes)} MiB at the "
        f"peak of a layer, where {savings.baseline} takes {before} MiB: {change} on every GPU."
    )


def serving_table(lines: Sequence[Served], *, max_num_batched_tokens: int) -> Table:
    """Return one line for each set-up of one model: what reaches the kernel and which formulas hold."""
    rows, notes = [], []
    for line in lines:
        if line.answer is None:
            rows.append((line.setup, "", "", *("refused" for _ in SERVED_FORMULAS)))
            notes.append(f"{line.setup}: {line.reason}")
            continue
        judged = [line.answer.formulas[name] for name in SERVED_FORMULAS]
        reached = line.answer.reach.max_tokens
        rows.append((line.setup, _number(reached), _number(line.answer.rows), *map(_served, judged)))
        notes += [f"{line.setup}: {judged[0].formula.name}: {text}" for text in _broken(judged[0])]
    return Table(
        title=f"{lines[0].model} served with --max-num-batched-tokens {max_num_batched_tokens}",
        columns=("further flags of vLLM", "most tokens", "rows needed", *SERVED_FORMULAS),
        rows=tuple(rows),
        text_columns=frozenset({0, *range(3, 3 + len(SERVED_FORMULAS))}),
        long_columns=frozenset({0}),
        notes=(
            "most tokens: of one call of the expert kernel of one rank; a token may name an expert twice. not applicable: another "
            "back end runs with these flags, so nothing is sized",
            *notes,
        ),
    )


def _served(judged: Judged) -> str:
    if judged.witness is not None:
        how = "guard fires" if judged.failure == "guard_fires" else "OVERRUN"
        return f"NO: {how} from {judged.witness.tokens:,} tokens"
    if judged.verdict is Verdict.NOT_APPLICABLE:
        return "not applicable"
    return str(judged.verdict)


def _broken(judged: Judged) -> list[str]:
    witness = judged.witness
    if witness is None:
        return []
    return [f"{witness.traffic} ({witness.tokens:,} tokens). What to do: {witness.advice}."]


def engines_table(lines: Sequence[EngineLine]) -> Table:
    """Return every engine's formula: safe for which routings, proved, attained, how loose."""
    notes = [
        "x exact: rows over those of the exact worst case of packed experts. worst: the highest of the stated grid; "
        f"the others: median over the models of the zoo, a call of {TYPICAL_TOKENS:,} or {DECODE_TOKENS:,} tokens in a "
        f"buffer sized for {TYPICAL_TOKENS:,}",
        "attained: configurations of the grid in which some routing uses every row",
    ]
    notes += [f"{line.formula.name}: {line.search.detail}" for line in lines if not line.safe]
    return Table(
        title="Sizing formulas of all engines, side by side",
        columns=(
            "formula",
            "used by",
            "verdict",
            "proof",
            "attained",
            "x exact, worst",
            f"{TYPICAL_TOKENS:,} tokens",
            f"{DECODE_TOKENS:,} tokens",
            "judged for",
        ),
        rows=tuple(_engine_row(line) for line in lines),
        text_columns=frozenset({0, 1, 2, 3, 8}),
        long_columns=frozenset({1, 8}),
        notes=tuple(notes),
    )


def _engine_row(line: EngineLine) -> tuple[str, ...]:
    return (
        line.formula.name,
        line.engine,
        "safe" if line.safe else "UNSAFE",
        str(line.proof.verdict),
        f"{line.attained:,} of {line.configurations:,}",
        f"{line.worst.ratio:,.2f}",
        f"{line.typical:,.3f}",
        f"{line.decode:,.2f}",
        line.domain,
    )


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
