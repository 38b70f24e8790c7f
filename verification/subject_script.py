"""The witness of a wrong byte of a subject as a short script that needs torch and the subject's file alone.

The script holds the arguments of the call as bytes, what the wrong byte (or entry of an index output) must be, and
nothing else of the harness: it loads the file that it is given, calls the operation once and fails while the byte is
wrong. Scripts are written of cases whose tensors are contiguous and small; memory findings, laws and refusals need the
harness.
"""

from __future__ import annotations

import base64
import contextlib
import textwrap
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from nvfp4_moe.verification.conformance.call import TURNS, NoOutputs, Turn
from nvfp4_moe.verification.conformance.cases import QuantCase, RoutingCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.memory import Arena, HostArena
from nvfp4_moe.verification.conformance.plan import case_from_json
from nvfp4_moe.verification.conformance.quant_check import run_quant
from nvfp4_moe.verification.conformance.quant_data import make_inputs
from nvfp4_moe.verification.conformance.routing_check import make_topk_ids, run_routing
from nvfp4_moe.verification.conformance.rows_check import SWIZZLE, RowsCase, run_rows
from nvfp4_moe.verification.conformance.subject import Subject

LARGEST = 200_000
"""Characters of a script: more are of no use in an issue."""

_TAIL = ("input", "input_global_scale")
_ROUTED = ("expert_offsets", "problem_sizes1", "problem_sizes2", "input_permutation", "output_permutation")
_SIZES = ("num_experts", "n", "k", "blockscale_offsets", "is_gated")

_TEMPLATE = '''\
"""{operation}: {title}.

Needs torch and the file with the kernel: python THIS.py FILE.py [ATTRIBUTE]
"""
import base64, importlib.util, sys, zlib
import torch


def tensor(dtype, shape, text):
    raw = list(zlib.decompress(base64.b85decode(text)))
    return torch.tensor(raw, dtype=torch.uint8).view(dtype).view(shape).to(device)


spec = importlib.util.spec_from_file_location("subject", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
subject = getattr(module, sys.argv[2] if len(sys.argv) > 2 else "SUBJECT", module)
operation = getattr(subject, "{operation}", None) or subject.operations["{operation}"]
device = getattr(subject, "device", "cpu")

{arguments}

{call}
found = int({written}.cpu().contiguous().view(torch.{entry}).flatten()[{index}])
print(f"{place}: {{found:#x}}, must be {true:#x}")
assert found == {true:#x}, "{place} is wrong"
'''


def as_script(document: Mapping[str, Any]) -> str:
    """Return a stand-alone script that fails with an AssertionError while the byte is wrong.

    Raises:
        ValueError, TypeError: a witness that is not legal, or one that no script can show.
    """
    case = case_from_json(_object(document, "case"))
    where = _object(document, "where")
    if (
        not isinstance(case, QuantCase | RoutingCase | RowsCase)
        or "true" not in where
        or document.get("before")
    ):
        raise ValueError(
            "a script shows one wrong byte of one call; this finding needs the harness: replay it"
        )
    output, index, entry = _place(case, where)
    true = _number(where, "true") & (0xFF if entry == "uint8" else 0xFFFFFFFF)
    functional = document.get("functional") is True or isinstance(case, RowsCase)
    arguments = _arguments(case, _turn(where), functional=functional)
    if output not in arguments and not functional:
        raise ValueError(f"output must be one of {', '.join(arguments)}, got {output!r:.60}")
    operation = case.operation if not isinstance(case, RoutingCase) else "get_cutlass_moe_mm_data"
    text = _TEMPLATE.format(
        operation=operation,
        title="an entry is wrong" if entry == "int32" else "a byte is wrong",
        arguments="\n".join(_assignment(name, value) for name, value in arguments.items()),
        call=f"{'returned = ' if functional else ''}operation({', '.join(arguments)})",
        written=_returned(output) if functional else output,
        entry=entry,
        index=index,
        place=f"{'entry' if entry == 'int32' else 'byte'} {index} of {output}",
        true=true,
    )
    if len(text) > LARGEST:
        raise ValueError(
            f"the case is too large for a script: {len(text):,} characters, {LARGEST:,} are the most; replay it"
        )
    return text


def _place(case: QuantCase | RoutingCase | RowsCase, where: Mapping[str, Any]) -> tuple[str, int, str]:
    """Return (output, place of the wrong entry, type of the entries)."""
    if isinstance(case, RowsCase):
        row, byte = _number(where, "row"), _number(where, "byte")
        return "output", row * _row_bytes(case) + byte, "uint8"
    output = where.get("output")
    if not isinstance(output, str) or not output.isidentifier():
        raise TypeError(f"output must be the name of an output, got {output!r:.60}")
    if isinstance(case, RoutingCase):
        return output, _number(where, "index"), "int32"
    return output, _number(where, "byte"), "uint8"


def _row_bytes(case: RowsCase) -> int:
    from nvfp4_moe.verification.conformance.rows_check import output_shape

    shape, dtype = output_shape(case)
    return shape[-1] * dtype.itemsize


def _turn(where: Mapping[str, Any]) -> Turn:
    """Return the turn in which the byte was wrong; by default one whose stale contents the byte is not."""
    number = where.get("turn")
    if isinstance(number, int) and 0 <= number < len(TURNS):
        return TURNS[number]
    return TURNS[2] if where.get("true") in (0xFF, -1) else TURNS[1]


def _arguments(
    case: QuantCase | RoutingCase | RowsCase, turn: Turn, *, functional: bool
) -> dict[str, torch.Tensor | int]:
    """Return the arguments of the call by name, as the subject gets them."""
    seen: list[Any] = []
    names = _names(case, functional=functional)
    operation = "get_cutlass_moe_mm_data" if isinstance(case, RoutingCase) else case.operation
    recorder = Subject("recorder", "cpu", Contract(), **{operation: _recorder(seen, len(names))})
    arena = HostArena()
    with contextlib.suppress(NoOutputs):  # it returns none
        _run(recorder, case, arena, turn)
    if any(isinstance(thing, torch.Tensor) and not thing.is_contiguous() for thing in seen):
        raise ValueError("a case of views has no script: replay it")
    return dict(zip(names, seen, strict=True))


def _run(subject: Subject, case: QuantCase | RoutingCase | RowsCase, arena: Arena, turn: Turn) -> None:
    if isinstance(case, QuantCase):
        run_quant(subject, case, make_inputs(case), arena, turn)
    elif isinstance(case, RoutingCase):
        run_routing(subject, case, make_topk_ids(case), arena, turn)
    else:
        run_rows(subject, case, arena, turn)


def _names(case: QuantCase | RoutingCase | RowsCase, *, functional: bool) -> tuple[str, ...]:
    if isinstance(case, RoutingCase):
        return ("topk_ids", *_ROUTED, *_SIZES)
    if isinstance(case, RowsCase):
        return ("linear",) if case.operation == SWIZZLE else ("input", "map")
    rest = ("masked_m",) if case.masked else ("input_offset_by_experts", "output_scale_offset_by_experts")
    return (*(() if functional else ("output", "output_scale")), *_TAIL, *rest)


def _recorder(seen: list[Any], count: int) -> Callable[..., None]:
    """Return a function of so many arguments that keeps copies of them."""

    def keep(*given: Any) -> None:
        seen[:] = [
            thing.clone() if isinstance(thing, torch.Tensor) and thing.is_contiguous() else thing
            for thing in given
        ]

    exactly: dict[int, Callable[..., None]] = {
        1: lambda a: keep(a),
        2: lambda a, b: keep(a, b),
        3: lambda a, b, c: keep(a, b, c),
        4: lambda a, b, c, d: keep(a, b, c, d),
    }
    return exactly.get(count, keep)


def _assignment(name: str, value: torch.Tensor | int) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{name} = {value!r}"
    raw = bytes(value.contiguous().view(-1).view(torch.uint8).tolist()) if value.numel() else b""
    text = base64.b85encode(zlib.compress(raw, 9)).decode()
    lines: Sequence[str] = textwrap.wrap(text, 100, break_on_hyphens=False) if len(text) > 60 else [text]
    held = (
        f'"{lines[0]}"' if len(lines) == 1 else "(\n" + "\n".join(f'    "{line}"' for line in lines) + "\n)"
    )
    return f"{name} = tensor({value.dtype}, {tuple(value.shape)}, {held})"


def _returned(output: str) -> str:
    """Return what gives an output of the functional form."""
    place = {"output": 0, "output_scale": 1}.get(output, 0)
    return f"(returned if isinstance(returned, torch.Tensor) else returned[{place}])"


def _object(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name)
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be an object, got {value!r:.60}")
    return value


def _number(where: Mapping[str, Any], name: str) -> int:
    value = where.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r:.60}")
    return value
