"""`refute_index`: what it names is smallest, mends, and is confirmed by arithmetic of our own."""

from __future__ import annotations

import pytest

from nvfp4_moe.verification.proofs import overflow, solvers
from nvfp4_moe.verification.proofs.overflow import refute_index
from nvfp4_moe.verification.proofs.solvers import Answer, Reply
from nvfp4_moe.verification.result import Verdict

END = 2**31
ANY_INT32 = (0, END - 1)


def found(expression: str, ranges, width: int = 32, **options):
    outcome = refute_index(expression, ranges, width, **options)
    assert outcome.verdict is Verdict.REFUTED, outcome.detail
    assert outcome.witness is not None, outcome.detail
    return outcome.witness


def test_row_times_width() -> None:
    witness = found("row * k + column", {"k": (7168, 7168), "row": ANY_INT32, "column": (0, "k - 1")})
    row, column = divmod(END, 7168)  # the first element whose number does not fit
    assert witness["values"] == {"k": 7168, "row": row, "column": column}
    assert (witness["exact"], witness["wrapped"]) == (END, -END)
    assert witness["mended"] == "int64_t{row} * k + column"
    assert witness["bits"] == 45  # (2^31 - 1) * 7168 + 7167 < 2^44


def test_order_of_names_is_the_order_of_the_search() -> None:
    ranges = {"row": (0, 448_000), "k": (16, 16_384)}
    rows_first = found("row * k", ranges)["values"]
    width_first = found("row * k", dict(reversed(ranges.items())))["values"]
    assert rows_first == {"row": END // 16_384, "k": 16_384}
    assert width_first == {"k": -(-END // 448_000), "row": -(-END // (-(-END // 448_000)))}


def test_a_product_that_fits_is_proved_and_a_row_more_is_not() -> None:
    fits = {"row": (0, (END - 1) // 7168), "k": (7168, 7168)}
    assert refute_index("row * k", fits).verdict is Verdict.PROVED
    one_more = {"row": (0, (END - 1) // 7168 + 1), "k": (7168, 7168)}
    assert found("row * k", one_more)["values"]["row"] == (END - 1) // 7168 + 1


def test_a_part_that_wraps_refutes_although_the_whole_fits() -> None:
    witness = found("row * k / 16", {"k": (16_384, 16_384), "row": (0, 140_000)})
    assert witness["values"]["row"] == END // 16_384
    assert witness["mended"] == "int64_t{row} * k / 16"


def test_the_cast_after_the_product_is_too_late() -> None:
    assert (
        found("int64_t{row * k}", {"k": (7168, 7168), "row": ANY_INT32})["mended"]
        == "int64_t{int64_t{row} * k}"
    )
    assert refute_index("int64_t{row} * k", {"k": (7168, 7168), "row": ANY_INT32}).verdict is Verdict.PROVED


def test_a_narrowing_cast_is_beyond_mending() -> None:
    witness = found("static_cast<int32_t>(row * k)", {"k": (16, 128), "row": ANY_INT32}, 64)
    assert witness["mended"] is None
    assert witness["values"] == {"k": 16, "row": END // 16}


def test_unsigned_words_wrap_to_zero() -> None:
    unsigned = {"block": "uint32_t", "threads": "uint32_t"}
    witness = found("block * threads", {"threads": (256, 256), "block": (0, 2**26)}, types=unsigned)
    assert (witness["exact"], witness["wrapped"]) == (2**32, 0)


def test_a_negative_index_is_refuted() -> None:
    assert found("row - first", {"first": (0, 5), "row": (0, 5)})["values"] == {"first": 1, "row": 0}


def test_relations_narrow_the_ranges() -> None:
    ranges = {"tokens": ANY_INT32, "topk": (1, 64)}
    assert refute_index("tokens * topk", ranges).verdict is Verdict.REFUTED
    held = refute_index("tokens * topk", ranges, given=("tokens * topk <= 2147483647",))
    assert held.verdict is Verdict.PROVED


def test_64_bits_overflow_too() -> None:
    witness = found("rows * bytes", {"bytes": (2**32 - 4, 2**32 + 4), "rows": (0, 2**31)}, 64)
    assert witness["values"] == {"bytes": 2**32, "rows": 2**31}
    assert witness["mended"] is None


@pytest.mark.parametrize(
    ("expression", "ranges", "width", "options", "said"),
    [
        ("row * ", {"row": (0, 1)}, 32, {}, "ends where a value is expected"),
        ("row * q", {"row": (0, 1)}, 32, {}, "unknown name 'q'"),
        ("row ** 2", {"row": (0, 1)}, 32, {}, "unknown name"),
        ("row", {"row": (0, 1)}, 16, {}, "must be 32 or 64 bits, got 16"),
        ("row", {"row": (0, 1)}, 32, {"types": {"row": "float"}}, "must be one of"),
        ("f(row)", {"row": (0, 1)}, 32, {}, "no function f"),
    ],
)
def test_bad_input(expression, ranges, width, options, said) -> None:
    with pytest.raises(ValueError, match=said.replace("*", r"\*").replace("(", r"\(")):
        refute_index(expression, ranges, width, **options)


def test_a_missing_prover_skips(monkeypatch) -> None:
    monkeypatch.setattr(solvers, "missing", lambda: ["cvc5"])
    assert refute_index("row * k", {"row": ANY_INT32, "k": ANY_INT32}).verdict is Verdict.SKIPPED


def test_silence_is_undecided_and_named(monkeypatch) -> None:
    silent = {
        "z3": lambda text, *, timeout_s: Reply(Answer.UNSAT),
        "cvc5": lambda text, *, timeout_s: Reply(Answer.UNKNOWN),
    }
    monkeypatch.setattr(overflow.solvers, "SOLVERS", silent)
    outcome = refute_index("row", {"row": (0, 1)})
    assert (outcome.verdict, outcome.detail) == (Verdict.UNDECIDED, "no answer in time: cvc5")
