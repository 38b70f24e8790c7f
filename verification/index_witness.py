"""The witness of an index expression that leaves its type. A replay computes it with words of its widths: no prover.

`{"kind": "index", "expression", "ranges", "width", "given", "types", "values", "exact", "wrapped", "mended", "bits"}`,
as `proofs.overflow.refute_index` gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nvfp4_moe.verification.bound_witness import Replay
from nvfp4_moe.verification.proofs.c_arithmetic import exact, faults, wrapped
from nvfp4_moe.verification.proofs.c_expression import INT32, INT64, TYPES, CType, leaf, parse


def replay(document: Mapping[str, Any]) -> Replay:
    """Compute the expression for the values of the witness; it reproduces where a part does not fit its type.

    Raises:
        ValueError, TypeError: not such a witness.
    """
    text, values = document.get("expression"), document.get("values")
    if not isinstance(text, str):
        raise TypeError(f"expression must be text, got {text!r:.60}")
    if not isinstance(values, Mapping) or not all(type(value) is int for value in values.values()):
        raise TypeError(f"values must be integers by name, got {values!r:.60}")
    types = {name: _type_of(name, document) for name in values}
    tree = parse(text, {name: leaf(name, ctype) for name, ctype in types.items()})
    outside = [name for name, ctype in types.items() if not ctype.least <= values[name] <= ctype.most]
    if outside:
        raise ValueError(f"{outside[0]} = {values[outside[0]]} is no {types[outside[0]].name}")
    try:
        value, fault = exact(tree, values), faults(tree, values)
    except ZeroDivisionError:
        raise ValueError(f"the expression {text!r:.60} divides by zero for these values") from None
    negative = tree.type.signed and value < 0
    sizes = ", ".join(f"{name} = {number:,}" for name, number in values.items())
    if fault is None and not negative:
        return Replay(False, (f"index expression {text}", f"at {sizes} every part fits: {value:,}"))
    said = f"{value:,} is read as {wrapped(tree, values):,}" if fault else f"{value:,} is no index"
    return Replay(True, (f"index expression {text}", f"at {sizes}: {said}"))


def _type_of(name: str, document: Mapping[str, Any]) -> CType:
    given, width = document.get("types", {}), document.get("width")
    if isinstance(given, Mapping) and name in given:
        ctype = TYPES.get(given[name]) if isinstance(given[name], str) else None
        if ctype is None:
            raise ValueError(f"the type of {name} must be one of {', '.join(TYPES)}, got {given[name]!r:.60}")
        return ctype
    if width not in (INT32.bits, INT64.bits):
        raise ValueError(f"width must be 32 or 64, got {width!r:.60}")
    return INT32 if width == INT32.bits else INT64
