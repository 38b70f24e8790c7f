"""The witness of a bound: a configuration and a routing that overruns, attains or loosely fills the bound's rows.

JSON form: `kind` ("bound"), `max_num_batched_tokens`, `topk`, `num_experts` (on this rank), `tile`,
`tokens_per_expert`, `rows` (the end of the last region that holds a row), `bound` (the rows that the bound gives) and,
for small routings, `topk_ids` (tokens, topk) with -1 for ids that are dropped. What else a replay needs:
`relation`, `formula` or `expression`, `ids`, `placement`, `num_global_experts`, `tokens`. A file is not trusted: every
value is checked, and rows and bound are computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from nvfp4_moe.reference.padding import FORMULAS, PLACEMENTS, Sizing, ceil_div, check_size
from nvfp4_moe.verification.expressions import Bound, expression_bound, formula_bound
from nvfp4_moe.verification.worst_case import IDS, MOST_EXPERTS, ids_of_counts, last_end, worst_end

KIND = "bound"
RELATIONS = ("overrun", "attained", "slack")
"""The routing needs more rows than the bound gives; exactly as many; no routing needs as many."""

MOST_IDS = 4_096
"""Larger routings are saved as counts alone; `worst_case.ids_of_counts` gives ids for them."""

_LONGEST_COUNTS = 200
"""Characters of a count list that a line for people may have."""

_SIZES = ("max_num_batched_tokens", "topk", "num_experts", "tile")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundWitness:
    """A configuration, a routing and the two row counts that it is about."""

    bound: Bound | None
    """None: a witness that does not say which bound it is about; its recorded rows stand."""
    relation: str
    ids: str
    placement: str
    sizing: Sizing
    tokens: int
    """M of the call, at most max_num_batched_tokens."""
    tokens_per_expert: Sequence[int]
    bound_rows: int
    """Rows that the bound gave when the witness was made."""

    @property
    def rows(self) -> int:
        """Return the rows that the routing needs, summed region by region."""
        return last_end(self.tokens_per_expert, tile=self.sizing.tile, placement=self.placement)

    def topk_ids(self) -> list[list[int]] | None:
        """Return topk_ids (tokens, topk) with these counts, or None for more than `MOST_IDS` ids."""
        if self.tokens * self.sizing.topk > MOST_IDS:
            return None
        return ids_of_counts(self.tokens_per_expert, self.tokens, self.sizing.topk)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        s = self.sizing
        document: dict[str, Any] = {"kind": KIND, "relation": self.relation}
        if self.bound is not None:
            document["formula" if self.bound.expression is None else "expression"] = self.bound.name
        document |= {
            "ids": self.ids,
            "placement": self.placement,
            "max_num_batched_tokens": s.tokens,
            "topk": s.topk,
            "num_experts": s.num_experts,
            "num_global_experts": s.num_global_experts,
            "tile": s.tile,
            "tokens": self.tokens,
            "tokens_per_expert": list(self.tokens_per_expert),
            "rows": self.rows,
            "bound": self.bound_rows,
        }
        topk_ids = self.topk_ids()
        if topk_ids is not None:
            document["topk_ids"] = topk_ids
        return document

    def __str__(self) -> str:
        s = self.sizing
        needs = {"overrun": "need", "attained": "need", "slack": "need only"}[self.relation]
        return (
            f"{_many(sum(self.tokens_per_expert), 'routed row')} on {_many(s.num_experts, 'expert')} (topk {s.topk}, "
            f"max_num_batched_tokens {s.tokens:,}) {needs} {self.rows:,} rows, the bound gives {self.bound_rows:,}"
        )

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> BoundWitness:
        """Return the witness of a JSON document that came from outside.

        Raises:
            ValueError, TypeError: a key is missing or a value is not legal; the text names it.
        """
        sizes = {name: check_size(name, _value(document, name), at_least=1) for name in _SIZES}
        if sizes["num_experts"] > MOST_EXPERTS:
            raise ValueError(f"num_experts must be at most {MOST_EXPERTS:,}, got {sizes['num_experts']}")
        counts = _counts(document, sizes["num_experts"])
        ids = _choice(document, "ids", IDS)
        found = cls(
            bound=_bound(document),
            relation=_choice(document, "relation", RELATIONS),
            ids=ids,
            placement=_choice(document, "placement", PLACEMENTS),
            sizing=Sizing(
                tokens=sizes["max_num_batched_tokens"],
                topk=sizes["topk"],
                num_experts=sizes["num_experts"],
                num_global_experts=document.get("num_global_experts", sizes["num_experts"]),
                tile=sizes["tile"],
            ),
            tokens=_tokens(document, counts, sizes, ids),
            tokens_per_expert=counts,
            bound_rows=_integer(document, "bound"),
        )
        if "topk_ids" in document:
            _check_ids_match(document["topk_ids"], found)
        return found


@dataclass(frozen=True, slots=True)
class Replay:
    """What running a counterexample again showed."""

    reproduces: bool
    lines: tuple[str, ...]
    """For people: what was run, what came out."""


class CannotReplay(Exception):
    """A counterexample that this machine cannot run again: something it needs is missing, or no answer came."""


def replay(document: Mapping[str, Any]) -> Replay:
    """Run a bound's witness again: sum its regions, evaluate its bound, compare.

    Raises:
        ValueError, TypeError: the document is no such witness, or its bound has no value for its sizes.
    """
    witness = BoundWitness.from_json(document)
    s, bound = witness.sizing, witness.bound
    rows = witness.bound_rows if bound is None else bound.rows(s)
    lines = [
        f"bound: {'not recorded, its rows stand' if bound is None else _rule(bound)}",
        f"sizes: max_num_batched_tokens {s.tokens:,}, topk {s.topk:,}, num_experts {s.num_experts:,}, tile {s.tile:,}",
        f"routing: {witness.tokens:,} tokens, {witness.ids} ids, {witness.placement} experts, "
        f"{_counts_said(witness.tokens_per_expert)}",
        f"rows: the routing needs {witness.rows:,}, the bound gives {rows:,}{_changed(rows, witness.bound_rows)}",
    ]
    if bound is not None and witness.tokens > bound.most_tokens(s, rows):
        return Replay(False, (*lines, "the bound's own guard refuses this call"))
    reproduces, said = _compare(witness, rows)
    return Replay(reproduces, (*lines, said))


def _compare(witness: BoundWitness, rows: int) -> tuple[bool, str]:
    needed = witness.rows
    if witness.relation == "overrun":
        if needed > rows:
            return True, f"REFUTED: {_many(needed - rows, 'row')} too few"
        return False, "holds: the buffer has the rows that the routing needs"
    if witness.relation == "attained":
        return needed == rows, "attained: every row is used" if needed == rows else "no longer attained"
    s = witness.sizing
    worst = worst_end(
        witness.tokens, s.topk, s.num_experts, tile=s.tile, ids=witness.ids, placement=witness.placement
    )
    if worst < rows:
        return True, f"loose: no routing of {witness.tokens:,} tokens needs more than {worst:,} rows"
    return False, "no longer loose"


def runs(counts: Sequence[int]) -> str:
    """Return counts as a short list expression: `[641] + [1] * 511 + [0] * 512`."""
    parts = [(value, len(list(group))) for value, group in groupby(counts)]
    if len(parts) > len(counts) // 2:
        return str(list(counts))
    return " + ".join(f"[{value}]" if times == 1 else f"[{value}] * {times}" for value, times in parts)


def _counts_said(counts: Sequence[int]) -> str:
    text = runs(counts)
    if len(text) <= _LONGEST_COUNTS:
        return f"tokens_per_expert {text}"
    occupied = sum(count > 0 for count in counts)
    return f"{occupied:,} of {_many(len(counts), 'expert')} hold rows, the fullest {max(counts):,}"


def _rule(bound: Bound) -> str:
    return bound.rule if bound.expression is not None else f"{bound.name} = {bound.rule}"


def _changed(rows: int, recorded: int) -> str:
    return "" if rows == recorded else f" (recorded: {recorded:,})"


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


# --- reading what came from outside ------------------------------------------------------------------------


def _value(document: Mapping[str, Any], name: str) -> Any:
    if name not in document:
        raise ValueError(f"a witness of kind {KIND!r} needs {name!r}")
    return document[name]


def _integer(document: Mapping[str, Any], name: str) -> int:
    value = _value(document, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r:.60}")
    return value


def _choice(document: Mapping[str, Any], name: str, legal: tuple[str, ...]) -> str:
    value = document.get(name, legal[0])
    if not isinstance(value, str) or value not in legal:
        raise ValueError(f"{name} must be one of {', '.join(legal)}, got {value!r:.60}")
    return value


def _counts(document: Mapping[str, Any], num_experts: int) -> list[int]:
    counts = _value(document, "tokens_per_expert")
    if not isinstance(counts, list) or len(counts) != num_experts:
        given = f"{len(counts)} entries" if isinstance(counts, list) else f"{counts!r:.60}"
        raise ValueError(
            f"tokens_per_expert must be a list of num_experts ({num_experts}) counts, got {given}"
        )
    return [check_size(f"tokens_per_expert[{e}]", count, at_least=0) for e, count in enumerate(counts)]


def _tokens(document: Mapping[str, Any], counts: Sequence[int], sizes: Mapping[str, int], ids: str) -> int:
    """Return M: the recorded tokens, else the fewest that can route the counts; both must be possible."""
    distinct = ids == "distinct"
    each = min(sizes["topk"], sizes["num_experts"]) if distinct else sizes["topk"]
    fewest = max(ceil_div(sum(counts), each), max(counts) if distinct else 0)
    tokens = check_size("tokens", document.get("tokens", fewest), at_least=0)
    if not fewest <= tokens <= sizes["max_num_batched_tokens"]:
        raise ValueError(
            f"tokens ({tokens}) must be at least {fewest} to route tokens_per_expert with {ids} ids, and at most "
            f"max_num_batched_tokens ({sizes['max_num_batched_tokens']})"
        )
    return tokens


def _bound(document: Mapping[str, Any]) -> Bound | None:
    formula, expression = document.get("formula"), document.get("expression")
    if formula is not None and expression is not None:
        raise ValueError("a witness has a formula or an expression, not both")
    for name, value in (("formula", formula), ("expression", expression)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} must be text, got {value!r:.60}")
    if formula is not None:
        if formula not in FORMULAS:
            raise ValueError(f"formula must be one of {', '.join(FORMULAS)}, got {formula!r:.60}")
        return formula_bound(FORMULAS[formula])
    return None if expression is None else expression_bound(expression)


def _check_ids_match(topk_ids: Any, witness: BoundWitness) -> None:
    tokens, topk, experts = witness.tokens, witness.sizing.topk, witness.sizing.num_experts
    shaped = isinstance(topk_ids, list) and len(topk_ids) == tokens
    if not shaped or not all(isinstance(row, list) and len(row) == topk for row in topk_ids):
        raise ValueError(f"topk_ids must be a list of {tokens} lists of {topk} ids")
    counts = [0] * experts
    for token, row in enumerate(topk_ids):
        for value in row:
            if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value < experts:
                raise ValueError(
                    f"topk_ids[{token}] must hold ids from -1 to {experts - 1}, got {value!r:.60}"
                )
            if value >= 0:
                counts[value] += 1
        named = [value for value in row if value >= 0]
        if witness.ids == "distinct" and len(set(named)) < len(named):
            raise ValueError(f"topk_ids[{token}] names an expert twice, ids are recorded as distinct")
    if counts != list(witness.tokens_per_expert):
        raise ValueError("topk_ids and tokens_per_expert do not agree")
