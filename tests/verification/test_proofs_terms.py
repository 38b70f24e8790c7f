"""The terms that provers read mean what the package's code computes: evaluated on numbers, both agree."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest

from nvfp4_moe.reference.padding import (
    FORMULAS,
    Sizing,
    exact_any_rows,
    exact_distinct_rows,
    expert_starts,
    round_up,
)
from nvfp4_moe.verification.proofs import padding, placement, solvers, swizzle
from nvfp4_moe.verification.proofs.terms import (
    INT,
    Term,
    bit_vector,
    conj,
    disj,
    eq,
    implies,
    integers,
    is_ceil,
    is_floor,
    minimum,
    neg,
    vectors,
    widen,
    within,
)

OPERATORS = {
    "+": operator.add,
    "-": lambda x, y=None: -x if y is None else x - y,
    "*": operator.mul,
    "div": operator.floordiv,
    "mod": operator.mod,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "not": operator.not_,
    "and": lambda *xs: all(xs),
    "or": lambda *xs: any(xs),
    "=>": lambda x, y: (not x) or y,
    "ite": lambda c, x, y: x if c else y,
}


def value(term: Term, numbers: dict[str, int]) -> int:
    """Evaluate a term of unbounded integers."""
    if term.args:
        return OPERATORS[term.head](*(value(arg, numbers) for arg in term.args))
    return numbers[term.head] if term.head in numbers else int(term.head)


SIZES = [
    (tile, routed, experts)
    for tile in (1, 2, 3, 8, 128)
    for routed in (0, 1, 2, 5, 127, 128, 129, 300)
    for experts in (1, 2, 3, 8, 200)
]


def test_exact_forms_are_the_reference_formulas() -> None:
    for tile, routed, experts in SIZES:
        numbers = {
            "tile": tile,
            "routed": routed,
            "experts": experts,
            "reach": (routed + (tile - 1) * experts) // tile,
            "token_tiles": -(-routed // tile),
        }
        assert value(padding.reach_of(padding.REACH, padding.ROUTED, padding.EXPERTS), numbers)
        exact = value(padding.exact_any(padding.ROUTED, padding.REACH), numbers)
        assert exact == exact_any_rows(routed, experts, tile=tile)
        distinct = padding.exact_distinct(padding.ROUTED, padding.EXPERTS, padding.REACH, padding.TOKEN_TILES)
        assert value(distinct, numbers) == exact_distinct_rows(routed, 1, experts, tile=tile)


@pytest.mark.parametrize("name", ["proposed", "loose"])
def test_goals_speak_about_the_named_formula(name: str) -> None:
    goal = next(o.goal for o in padding.bound() if o.name == name)
    bound = goal.args[1]  # goal: (<= rows bound)
    for tile, routed, experts in SIZES:
        numbers = {"tile": tile, "routed": routed, "experts": experts, "tokens": routed, "topk": 1}
        sizing = Sizing(tokens=routed, topk=1, num_experts=experts, num_global_experts=experts, tile=tile)
        assert value(bound, numbers) == FORMULAS[name].rows(sizing)


@pytest.mark.parametrize("name", ["align_up", "tile_index"])
@pytest.mark.parametrize("tile", [1, 2, 4, 128])
@pytest.mark.parametrize("counts", [[0], [5], [0, 0, 3, 0], [1, 128, 129, 0, 7], [127, 1, 1, 1, 256]])
def test_slots_and_buffers_are_those_of_the_reference(name: str, tile: int, counts: list[int]) -> None:
    rule = next(p for p in placement.CLOSED_FORMS if p.name == name)
    starts = expert_starts(counts, placement=name, tile=tile)
    for expert, start in enumerate(starts[:-1]):
        numbers = {"tile": tile, "expert": expert, "offset": sum(counts[:expert])}
        definition = rule.slot(placement.SLOT, placement.EXPERT, placement.OFFSET)
        assert start % tile == 0
        assert value(definition, {**numbers, "slot": start // tile})
        assert not value(definition, {**numbers, "slot": start // tile + 1})
    experts, routed = integers("experts routed")
    sizing = Sizing(
        tokens=sum(counts), topk=1, num_experts=len(counts), num_global_experts=len(counts), tile=tile
    )
    rows = FORMULAS["quack" if name == "tile_index" else "flashinfer_cutlass"].rows(sizing)
    numbers = {"tile": tile, "experts": len(counts), "routed": sum(counts), "last": rows // tile}
    assert value(rule.buffer(placement.LAST, experts, routed), numbers)


def test_packed_starts_are_prefix_sums_of_whole_tiles() -> None:
    counts = [1, 0, 129, 128]
    assert expert_starts(counts)[1:] == [sum(round_up(c, 128) for c in counts[: e + 1]) for e in range(4)]


@pytest.mark.parametrize("layout", swizzle.SWIZZLES, ids=lambda s: s.name)
def test_swizzle_byte_is_the_published_map(layout: swizzle.Swizzle) -> None:
    row, block, columns = integers("row block columns")
    term = layout.byte(row, block, columns)
    for blocks in (1, 4, 5, 9):
        tiles = -(-blocks // 4)
        for r in (0, 1, 7, 8, 31, 32, 33, 63, 64, 127, 128, 129, 300):
            for b in range(blocks):
                if layout.name == "128x4":
                    true = ((r // 128) * tiles + b // 4) * 512 + (r % 32) * 16 + ((r % 128) // 32) * 4 + b % 4
                else:
                    true = ((r // 8) * tiles + b // 4) * 32 + (r % 8) * 4 + b % 4
                assert value(term, {"row": r, "block": b, "columns": tiles}) == true


# --- the term language ----------------------------------------------------------------------------------------


def test_text() -> None:
    x, y = integers("x y")
    assert str(x + 2 * y - 1) == "(- (+ x (* 2 y)) 1)"
    assert str(x // 4) == "(div x 4)"
    assert str(-3 + x) == "(+ (- 3) x)"
    assert str(x > y) == "(< y x)"
    assert str(x >= 1) == "(<= 1 x)"
    assert str(within(0, x, y)) == "(and (<= 0 x) (< x y))"
    assert str(implies(neg(eq(x, 1)), disj(x < y, y < x))) == "(=> (not (= x 1)) (or (< x y) (< y x)))"
    assert str(conj(x < y)) == "(< x y)"
    assert str(minimum(x, y)) == "(ite (<= x y) x y)"
    assert [c.head for c in (x + y * x).constants()] == ["x", "y", "x"]


def test_vector_text() -> None:
    [v] = vectors("v", width=32)
    assert str(v * 4 // 3 % 5 + 1 - v) == (
        "(bvsub (bvadd (bvsrem (bvsdiv (bvmul v (_ bv4 32)) (_ bv3 32)) (_ bv5 32)) (_ bv1 32)) v)"
    )
    assert str(v >= -1) == "(bvsle (_ bv4294967295 32) v)"
    assert str(widen(v, by=32)) == "((_ sign_extend 32) v)"
    assert widen(v, by=32).sort == bit_vector(64)


def test_quotients() -> None:
    q, n, d = integers("q n d")
    for number in range(-7, 8):
        for divisor in (1, 2, 5):
            given = {"n": number, "d": divisor}
            assert [x for x in range(-9, 9) if value(is_ceil(q, n, d), {**given, "q": x})] == [
                -(-number // divisor)
            ]
            assert [x for x in range(-9, 9) if value(is_floor(q, n, d), {**given, "q": x})] == [
                number // divisor
            ]


def test_misuse_is_an_error() -> None:
    x = Term("x", INT)
    [v] = vectors("v", width=32)
    with pytest.raises(TypeError, match="no truth value"):
        bool(x < 1)
    with pytest.raises(TypeError, match="joins terms of sorts"):
        x + v


@pytest.mark.parametrize("ask", [solvers.ask_z3, solvers.ask_cvc5])
@pytest.mark.parametrize(("status", "answer"), [("unsat", "sat"), ("sat", "sat"), ("unknown", "sat")])
def test_a_solver_answers_what_is_so_not_what_the_file_expects(
    ask: Callable[..., solvers.Reply], status: str, answer: str
) -> None:
    text = f"(set-info :status {status})\n(set-logic QF_LIA)\n(declare-const x Int)\n(assert (> x 3))\n(check-sat)\n"
    assert str(ask(text, timeout_s=5).answer) == answer
