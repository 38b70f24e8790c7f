"""The expression language: what it accepts, exact values, error columns, limits, and the round trip through text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvfp4_moe.reference.padding import FORMULAS, Sizing
from nvfp4_moe.verification.expression_tree import (
    Call,
    Chain,
    Expression,
    Integer,
    Negation,
    Node,
    Size,
    Step,
)
from nvfp4_moe.verification.expressions import (
    MOST_CHARACTERS,
    MOST_DEPTH,
    NAMES,
    ExpressionError,
    parse,
    parse_bound,
)

SIZES = {"max_num_batched_tokens": 8192, "topk": 8, "num_experts": 256, "tile": 128}
SIZING = Sizing(tokens=8192, topk=8, num_experts=256, num_global_experts=256, tile=128)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("007", 7),
        ("1000000000000000000", 10**18),
        ("max_num_batched_tokens*topk + 127*num_experts", 98_048),
        ("max_num_batched_tokens * topk\t+ (tile-1) * num_experts", 98_048),
        ("10 - 3 - 2", 5),
        ("10 - (3 - 2)", 9),
        ("100 // 7 // 2", 7),
        ("7 * 5 // 3 % 4", 3),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-7 // 2", -4),  # unary minus binds tighter, // rounds down: (-7) // 2
        ("-(7 // 2)", -3),
        ("-7 % 3", 2),
        ("7 % -3", -2),
        ("--3", 3),
        ("2 - -3", 5),
        ("min(3, 1, 2)", 1),
        ("max(topk, num_experts)", 256),
        ("round_up(129, tile)", 256),
        ("round_up(0, 128)", 0),
        ("round_up(-129, 128)", -128),
    ],
)
def test_value(text: str, value: int) -> None:
    assert parse(text).evaluate(SIZES) == value


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("", 1, "the text ends"),
        ("topk / 2", 6, "write //"),
        ("topk ** 2", 6, "'**' is not legal"),
        ("1.5", 2, "'.' is not legal"),
        ("1e5", 2, "got 'e5'"),
        ("1_000", 2, "got '_000'"),
        ("2topk", 2, "got 'topk'"),
        ("topk topk", 6, "got 'topk'"),
        ("+1", 1, "expected an integer"),
        ("1 +", 4, "the text ends"),
        ("(1", 3, "expected an operator or ')'"),
        ("1)", 2, "got ')'"),
        ("()", 2, "got ')'"),
        ("min(1)", 1, "at least 2 arguments, got 1"),
        ("round_up(1, 2, 3)", 1, "takes 2 arguments, got 3"),
        ("min", 4, "expected '('"),
        ("max(1, 2", 9, "expected an operator or ')'"),
        ("  experts", 3, "unknown name: 'experts'"),
        ("abs(1)", 1, "unknown name: 'abs'"),
        ("topk = 3", 6, "'=' is not legal"),
        ("topk\n", 5, "'\\n' is not legal"),
        ("__import__('os')", 12, "is not legal"),
        ("topk.real", 5, "'.' is not legal"),
        ("topk if 1 else 2", 6, "got 'if'"),
        ("\u0661", 1, "is not legal"),  # a digit to str.isdigit, not to us
        ("\uff54opk", 1, "is not legal"),  # a letter that Python would normalize
        ("proposed + 1", 1, "must stand alone"),
        ("1 + 1000000000000000001", 5, "at most 10^18"),
    ],
)
def test_error_has_the_column(text: str, column: int, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.column == column
    assert str(caught.value).startswith(f"column {column}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("nest", ["({})", "-{}", "min(1, {})"])
def test_depth_limit(nest: str) -> None:
    text = "1"
    for _ in range(MOST_DEPTH):
        text = nest.format(text)
    parse(text)
    with pytest.raises(ExpressionError, match=f"deeper than {MOST_DEPTH}"):
        parse(nest.format(text))


def test_length_limit() -> None:
    longest = "+".join(["1"] * (MOST_CHARACTERS // 2))
    assert parse(longest).evaluate(SIZES) == MOST_CHARACTERS // 2
    assert parse(longest + " ").evaluate(SIZES) == MOST_CHARACTERS // 2
    with pytest.raises(ExpressionError, match="at most 1,000 characters, got 1,001"):
        parse(longest + "  ")


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("topk // (tile - tile)", 6, "division by zero"),
        ("topk % (tile - 128)", 6, "division by zero"),
        ("1 + round_up(topk, 0)", 5, "multiple of 0"),
        ("round_up(topk, -1)", 1, "multiple of -1"),
        ("10 * 1000000000000000000", 4, "beyond 10^18"),
        ("-1000000000000000000 - 1", 22, "beyond 10^18"),
        ("round_up(1000000000000000000, 999999999999999999)", 1, "beyond 10^18"),
    ],
)
def test_no_value_names_column_and_sizes(text: str, column: int, said: str) -> None:
    with pytest.raises(
        ExpressionError, match="max_num_batched_tokens=8192, topk=8, num_experts=256, tile=128"
    ) as caught:
        parse(text).evaluate(SIZES)
    assert caught.value.column == column
    assert said in str(caught.value)


def test_repeated_squares_stop_at_the_limit() -> None:
    with pytest.raises(ExpressionError, match="beyond 10"):
        parse("*".join(["999999999"] * 90)).evaluate(SIZES)


_LEAVES: st.SearchStrategy[Node] = st.one_of(
    st.integers(0, 10**18).map(Integer), st.sampled_from(NAMES).map(Size)
)


def _larger(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    def chain(operators: str) -> st.SearchStrategy[Node]:
        step = st.builds(Step, st.sampled_from(operators.split()), nodes)
        return st.builds(Chain, nodes, st.lists(step, min_size=1, max_size=3).map(tuple))

    return st.one_of(
        chain("+ -"),
        chain("* // %"),
        st.builds(Negation, nodes),
        st.builds(Call, st.sampled_from(["min", "max"]), st.lists(nodes, min_size=2, max_size=3).map(tuple)),
        st.builds(Call, st.just("round_up"), st.tuples(nodes, nodes)),
    )


@settings(max_examples=200, deadline=None)
@given(st.recursive(_LEAVES, _larger, max_leaves=8).map(Expression))
def test_text_of_a_tree_parses_to_the_same_tree(expression: Expression) -> None:
    text = str(expression)
    assert parse(text) == expression
    assert len(str(parse(f" {text} "))) <= len(text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("((topk))", "topk"),
        ("(1 * 2) + 3", "1*2+3"),
        ("1 - (2 + 3)", "1-(2+3)"),
        ("(1 - 2) + 3", "(1-2)+3"),
        ("2 * (3 // 4)", "2*(3//4)"),
        ("-(1 + 2)", "-(1+2)"),
        ("-((3))", "-3"),
        ("min((1 + 2), 3)", "min(1+2,3)"),
    ],
)
def test_text_keeps_the_parentheses_that_the_tree_needs(text: str, kept: str) -> None:
    assert str(parse(text)) == kept
    assert parse(kept) == parse(text)


def test_trees_differ_where_values_may() -> None:
    assert parse("1 - 2 + 3") != parse("1 - (2 + 3)")
    assert parse("1 + 2") == parse("(1)  +(2)")


# --- bounds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formulas_name_goes_before_an_expression(name: str) -> None:
    bound, formula = parse_bound(f" {name} "), FORMULAS[name]
    assert (bound.name, bound.ids, bound.placement, bound.capped) == (
        name,
        formula.ids,
        formula.placement,
        formula.capped,
    )
    assert bound.expression is None
    assert bound.rows(SIZING) == formula.rows(SIZING)


@pytest.mark.parametrize(
    ("text", "capped"),
    [
        ("65536*topk", True),
        ("128", True),
        ("max_num_batched_tokens*topk", False),
        ("0*max_num_batched_tokens", False),
    ],
)
def test_an_expression_without_the_batch_is_capped(text: str, capped: bool) -> None:
    bound = parse_bound(f"{text} ")
    assert bound.capped is capped
    assert (bound.name, bound.rule) == (text, text)


def test_expression_of_a_formula_gives_its_rows() -> None:
    written = parse_bound("max_num_batched_tokens*topk + (tile-1)*num_experts")
    assert written.rows(SIZING) == FORMULAS["proposed"].rows(SIZING) == 98_048


def test_num_experts_is_the_count_on_this_rank() -> None:
    sizing = Sizing(tokens=1, topk=1, num_experts=16, num_global_experts=256)
    assert parse_bound("num_experts").rows(sizing) == 16


def test_an_unknown_word_lists_formulas_and_sizes() -> None:
    with pytest.raises(
        ExpressionError, match=r"'prposed' is neither a formula .proposed, .* nor a size .max_num"
    ):
        parse_bound("prposed")


@pytest.mark.parametrize(
    ("text", "topk", "rows", "most"),
    [("1000", 3, 1000, 333), ("0", 1, 0, 0), ("-5", 1, -5, -1), ("max_num_batched_tokens", 3, 8192, 8192)],
)
def test_guard(text: str, topk: int, rows: int, most: int) -> None:
    sizing = Sizing(tokens=8192, topk=topk, num_experts=1, num_global_experts=1)
    bound = parse_bound(text)
    assert bound.rows(sizing) == rows
    assert bound.most_tokens(sizing, rows) == most


@pytest.mark.parametrize("text", ["9" * 900, "x" * 900, "1 " + "9" * 900])
def test_what_an_error_quotes_is_cut(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"\.\.\.") as caught:
        parse(text)
    assert len(str(caught.value)) < 300
