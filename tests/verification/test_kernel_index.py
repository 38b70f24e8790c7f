"""The stated index expressions are the kernels': their text is in the sources, and a compiler computes the same numbers.

Each expression is compiled with the kernels' own headers, under the types that the statement declares, and evaluated at
the ends of its ranges and between them: the numbers are those of the typed tree that the provers are asked about, and
the sanitizer sees no overflow. A subscript or pointer sum of the sources that is not stated fails a test.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from nvfp4_moe.verification.counter import GAMMA, key, mix
from nvfp4_moe.verification.proofs.c_arithmetic import exact, faults, wrapped
from nvfp4_moe.verification.proofs.c_expression import C_CONSTANTS, C_FUNCTIONS, INT32, INT64
from nvfp4_moe.verification.proofs.index_expression import IndexExpression, Range
from nvfp4_moe.verification.proofs.kernel_index import EXPRESSIONS, INTEGERS_ONLY, SLOW_ON_WORDS
from nvfp4_moe.verification.proofs.kernel_ranges import (
    FEW_ROWS,
    INT32_MAX,
    LARGEST_K,
    LONGEST_STEP,
    MASKED_EXPERTS,
    ROUTED_EXPERTS,
    ROWS,
)
from nvfp4_moe.verification.proofs.overflow import refute_index
from nvfp4_moe.verification.result import Verdict

STATEMENTS = "verification/proofs/kernel_index_*.py"
CUDA = Path(__file__).resolve().parents[2] / "cuda"
STATED = [(claim, x) for claim, stated in EXPRESSIONS.items() for x in stated]
each = pytest.mark.parametrize("stated", [x for _, x in STATED], ids=[x.name for _, x in STATED])


def squeezed(text: str) -> str:
    """Return code without comments and with single blanks."""
    return " ".join(re.sub(r"//[^\n]*", "", text).split())


SOURCES = {
    str(path.relative_to(CUDA)): squeezed(path.read_text(encoding="utf-8"))
    for pattern in ("include/nvfp4_moe/*.h", "csrc/*")
    for path in CUDA.glob(pattern)
    if path.is_file()
}


# --- the text -------------------------------------------------------------------------------------------------


@each
def test_the_expression_is_the_text_of_its_source(stated: IndexExpression) -> None:
    text = squeezed(stated.written or stated.text)
    assert text in SOURCES[stated.file], f"{stated.file} has no `{text}`: state what it has in {STATEMENTS}"


@each
def test_the_ranges_are_not_empty(stated: IndexExpression) -> None:
    assert stated.allows(stated.corner())


@pytest.mark.parametrize("name", C_FUNCTIONS)
def test_functions_are_the_text_of_their_header(name: str) -> None:
    function = C_FUNCTIONS[name]
    header = SOURCES[f"include/nvfp4_moe/{function.file}"]
    body = header[re.search(rf"\b{name}\(", header).start() :]
    returned = body[: body.index("return ")] + body[body.index("return ") :].partition(";")[0]
    assert returned.endswith(f"return {function.body}")
    assert all(f"{name} = {text};" in returned for _, name, text in function.before)


@pytest.mark.parametrize(("name", "value"), C_CONSTANTS.items())
def test_constants_are_those_of_the_sources(name: str, value: int) -> None:
    every = " ".join(SOURCES.values())
    found = re.findall(rf"constexpr int(?:32_t)? {name} = ([^;]+);", every)
    assert str(value) in found or (name, found) == ("kPieceBytes", ["4 * kPieceWords"])
    assert "constexpr int kPieceWords = 4;" in every


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("csrc/checks.h", "constexpr int64_t kLongestStep = 1 << 16;"),
        ("csrc/checks.h", "constexpr int64_t kLargestK = int64_t{1} << 27;"),
        ("csrc/checks.h", '"the number of routed rows", call.rows, 0, kInt32Max - kLongestStep)'),
        (
            "csrc/checks.h",
            '"the number of experts", input_global_scale.size(0), 1, kInt32Max - kLongestStep)',
        ),
        ("csrc/checks.h", '"the number of experts", input.size(0), 1, kInt32Max - kLongestStep)'),
        ("csrc/checks.h", "call.experts * call.rows_per_expert, 0, kInt32Max - kLongestStep)"),
        ("csrc/checks.h", '"the distance of input rows", stride, 0, kInt32Max)'),
        ("csrc/checks.h", '"num_experts", num_experts, 1, kInt32Max / kTileRows / 2)'),
        ("csrc/checks.h", "topk_ids.numel(), 0, kInt32Max - kLongestStep - (kTileRows - 1) * num_experts)"),
        ("csrc/checks.h", '"scale blocks of a row", linear.size(2), 1, kLargestK)'),
        ("csrc/gemm_checks.h", '"the number of experts", experts, 1, kInt32Max - kLongestStep)'),
        ("csrc/gemm_checks.h", '"the number of routed rows", a.size(0), 0, kInt32Max - kTileRows)'),
        ("csrc/gemm_checks.h", "k % kBlockSize != 0 || k > kLargestK"),
        ("csrc/gemm_checks.h", "n % kColumnMultiple != 0 || n > kLargestK"),
        ("include/nvfp4_moe/gemm.h", "constexpr int kStepK = 128;"),
        ("include/nvfp4_moe/gemm.h", "constexpr int kLaneK = 32;"),
        ("csrc/gemm_prepare.cuh", "constexpr int kPrepareThreads = 256;"),
        ("csrc/quantize.cu", "constexpr int64_t kMostMaskedExperts = 65'535;"),
        ("csrc/quantize_launch.cuh", "constexpr int64_t kSharedVectorExperts = 2048;"),
    ],
)
def test_the_declared_ranges_are_those_of_the_checks(file: str, text: str) -> None:
    assert text in SOURCES[file]


@pytest.mark.parametrize("name", ["kFewRows", "kFewNarrowRows"])
def test_calls_of_few_rows_stay_below_the_declared_number(name: str) -> None:
    (number,) = re.findall(rf"constexpr int64_t {name} = (\d+);", SOURCES["csrc/quantize_launch.cuh"])
    assert int(number) <= FEW_ROWS


def test_the_limits_are_the_numbers_of_these_texts() -> None:
    assert (LONGEST_STEP, LARGEST_K, MASKED_EXPERTS) == (1 << 16, 1 << 27, 65_535)
    assert (ROWS, ROUTED_EXPERTS) == (INT32_MAX - (1 << 16), INT32_MAX // 128 // 2)


def test_the_lists_of_exceptions_name_expressions() -> None:
    names = {x.name for _, x in STATED}
    assert len(names) == len(STATED)
    assert names >= INTEGERS_ONLY | SLOW_ON_WORDS
    assert not INTEGERS_ONLY & SLOW_ON_WORDS


# --- the numbers ----------------------------------------------------------------------------------------------

SAMPLES = 40


def samples(stated: IndexExpression) -> list[dict[str, int]]:
    """Return the corner, the least values, and values between, all inside ranges and relations."""
    words = (mix(key(0, f"index.{stated.name}") + n * GAMMA) for n in itertools.count(1))

    def below(end: int) -> int:
        return next(words) % end

    rows = [stated.corner()]
    for number in range(SAMPLES):
        values: dict[str, int] = {}
        for name in stated.ranges:
            least, most = stated.limits(name, values)
            span = max(0, most - least)
            offsets = (
                0,
                span,
                below(span + 1),
                below(min(span, 300) + 1),
                span - below(min(span, 300) + 1),
            )
            values[name] = least + (0 if number == 0 else offsets[below(len(offsets))])
        if stated.allows(values):
            rows.append(values)
    return rows


def declared(stated: IndexExpression) -> str:
    """Return C++ declarations of the names, in the order of the ranges, and one array of numbers to fill them from."""
    plain, members = [], {}
    for at, (name, named) in enumerate(stated.ranges.items()):
        value = f"static_cast<{named.type.name}>(v[{at}])"
        owner, _, member = name.rpartition(".")
        if owner:
            members.setdefault(owner.replace(".", "_"), []).append((owner, member, named.type.name, value))
        else:
            plain.append(f"  const {named.type.name} {name} = {value};")
    for flat, fields in members.items():
        owner = fields[0][0]
        if owner == "owner":
            plain.append(f"  Owner owner{{}};{''.join(f' owner.{m} = {v};' for _, m, _, v in fields)}")
            continue
        inner = "".join(f" {t} {m};" for _, m, t, _ in fields)
        values = ", ".join(v for *_, v in fields)
        nested = owner.split(".")
        if len(nested) == 1:
            plain.append(f"  const struct {{{inner} }} {flat}{{{values}}};")
        else:  # one struct inside another: expert.owner.first_row
            plain.append(
                f"  const struct {{ struct {{{inner} }} {nested[1]}; }} {nested[0]}{{{{{values}}}}};"
            )
    return "\n".join([*plain, *(f"  const auto {n} = {text};" for n, text in stated.assigned)])


def program() -> str:
    """Return a program that reads lines "number values..." and prints the value of expression `number` for each."""
    headers = (
        '#include "nvfp4_moe/quantize.h"\n#include "nvfp4_moe/routing.h"\n#include "nvfp4_moe/swizzle.h"\n'
    )
    own = {"kWarp", "kAtOnce", "kThreads", "kMostThreads"}
    constants = "".join(f"constexpr int {name} = {C_CONSTANTS[name]};\n" for name in own)
    functions = "".join(
        f"int64_t f{n}(const int64_t* v) {{\n  (void)v;\n{declared(x)}\n  return static_cast<int64_t>({x.text});\n}}\n"
        for n, (_, x) in enumerate(STATED)
    )
    table = ", ".join(f"f{n}" for n in range(len(STATED)))
    return f"""{headers}#include <cstdio>
using namespace nvfp4_moe;
template <class T> T min(T a, T b) {{ return a < b ? a : b; }}
{constants}{functions}
int64_t (*const table[])(const int64_t*) = {{{table}}};
int main() {{
  long long number, count, value;
  while (std::scanf("%lld %lld", &number, &count) == 2) {{
    int64_t v[16] = {{}};
    for (long long i = 0; i < count; ++i) {{ if (std::scanf("%lld", &value) != 1) return 2; v[i] = value; }}
    std::printf("%lld\\n", static_cast<long long>(table[number](v)));
  }}
}}
"""


@pytest.fixture(scope="module")
def computed(tmp_path_factory) -> dict[str, list[tuple[dict[str, int], int]]]:
    """Return for each expression the samples and what the compiled program gives for them."""
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    folder = tmp_path_factory.mktemp("index")
    (folder / "index.cpp").write_text(program(), encoding="utf-8")
    binary = folder / "index"
    flags = [
        "-std=c++17",
        "-O0",
        "-fsanitize=signed-integer-overflow",
        "-fno-sanitize-recover=all",
        f"-I{CUDA / 'include'}",
    ]
    subprocess.run([compiler, *flags, str(folder / "index.cpp"), "-o", str(binary)], check=True)
    asked = [(n, x, values) for n, (_, x) in enumerate(STATED) for values in samples(x)]
    lines = "".join(f"{n} {len(values)} {' '.join(map(str, values.values()))}\n" for n, _, values in asked)
    ran = subprocess.run([str(binary)], input=lines, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    numbers = [int(line) for line in ran.stdout.split()]
    assert len(numbers) == len(asked)
    found: dict[str, list[tuple[dict[str, int], int]]] = {}
    for (_, x, values), number in zip(asked, numbers, strict=True):
        found.setdefault(x.name, []).append((values, number))
    return found


@each
def test_the_compiler_computes_what_the_tree_says(stated: IndexExpression, computed) -> None:
    tree = stated.tree()
    for values, number in computed[stated.name]:
        assert exact(tree, values) == wrapped(tree, values) == number, values
        assert faults(tree, values) is None


# --- nothing is left out --------------------------------------------------------------------------------------

SMALL = {
    # loops of constant length over registers and small arrays
    *("2 * i", "2 * i + 1", "4 + i", "i + half", "i + kBlockSize / 4", "warps - 1", "largest[0] >> 16"),
    # one past an index that is itself below the number of experts, at most 2^31 - 2^16
    *("e + 1", "experts - 1", "call.experts - 1", "expert + 1", "expert - 1"),
    # a function whose value is stated where it is written
    "a_scale_byte(call, rows, row - rows.first, block)",
    # the same in the grouped GEMM: registers of a thread, words of a piece, warps of a block
    *("i / 2", "4 * i", "kPrepareThreads / 32", "word / 2", "word % 2", "pair / 2", "half + pair % 2 * 2"),
    *("i / 2 * 4 + i % 2", "i / 2 * 4 + i % 2 + 2", "kTokens / 2"),
    # as stated for the last of three
    *("int64_t{3} * e + 1",),
}
"""Subscripts that no size can make large."""

KERNELS = [
    *("include/nvfp4_moe/gemm.h", "csrc/gemm_prepare.cuh", "csrc/gemm_kernel.cuh"),
    *(f"include/nvfp4_moe/{name}.h" for name in ("layouts", "quantize", "routing", "rows", "swizzle")),
    *(
        f"csrc/{name}"
        for name in ("few_rows_kernel.cuh", "quantize_kernel.cuh", "routing_kernel.cuh", "rows.cu")
    ),
]


def subscripts(text: str) -> list[str]:
    """Return the arithmetic inside square brackets."""
    return [s for s in re.findall(r"\w\[([^\[\]]+)\]", text) if re.search(r"[+*/%-]", s)]


def products(text: str) -> list[str]:
    """Return what is added to the tensors of a call where it is a product."""
    text = re.sub(r"\w+\[[^\[\]]+\]", "x", text)  # told by `subscripts`
    sums = re.findall(r"call\.\w+ \+ ((?:[^(),;]|\((?:[^()]|\([^()]*\))*\))+)[,;)]", text)
    return [s.strip() for s in sums if "*" in s and not s.startswith(("swizzled_byte(", "a_scale_byte("))]


@pytest.mark.parametrize("file", KERNELS)
def test_every_subscript_and_pointer_sum_is_stated(file: str) -> None:
    texts = [squeezed(x.written or x.text) for _, x in STATED]
    bodies = " ".join(texts)
    left_out = [
        s
        for s in (*subscripts(SOURCES[file]), *products(SOURCES[file]))
        if s not in SMALL and s not in bodies
    ]
    assert not left_out, f"state these, with the ranges of their names, in {STATEMENTS}"


# --- what the proofs are worth --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("row + ahead", {"ahead": (2, 2), "row": (0, "LIMIT - 1")}),
        ("first + rows_each", {"rows_each": (8, 8), "first": (0, "LIMIT")}),
        ("first + threads", {"threads": (512, 512), "first": (0, "LIMIT - 1")}),
    ],
)
def test_loops_fit_below_the_limit_of_the_door_and_not_without_it(text: str, ranges) -> None:
    def limited(limit: int):
        ends = {"LIMIT": limit, "LIMIT - 1": limit - 1}
        return {name: tuple(ends.get(x, x) for x in pair) for name, pair in ranges.items()}

    assert refute_index(text, limited(ROWS)).verdict is Verdict.PROVED
    assert refute_index(text, limited(INT32_MAX)).verdict is Verdict.REFUTED


NARROW = [
    "input_row",
    "packed_byte",
    "region_byte",
    "ring_packed_byte",
    "segment",
    "gather_to",
    "linear_byte",
]


@pytest.mark.parametrize("name", NARROW)
def test_with_32_bits_the_corner_would_leave_its_type(name: str) -> None:
    stated = next(x for _, x in STATED if x.name == name)
    text = stated.text.replace("int64_t{row}", "row").replace(
        "int64_t{call.input_stride}", "call.input_stride"
    )
    narrow = replace(
        stated, text=text, ranges={n: Range(INT32, r.least, r.most) for n, r in stated.ranges.items()}
    )
    assert faults(narrow.tree(), narrow.corner()) is not None
    assert narrow.tree().type == INT32
    assert stated.tree().type == INT64
