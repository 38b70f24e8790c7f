"""`describe`: what a subject does, measured in a child, as the contract that it could promise.

A measured property holds for the calls that were made, no more: "no difference in five runs" is not a proof of
determinism. Where an answer is not one of the contract's words (rows that lie apart are misread, a width crashes), the
line says so and the property counts as undetermined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from math import gcd
from typing import Any

from nvfp4_moe.verification.conformance.contract import PRESETS, Contract
from nvfp4_moe.verification.conformance.routing_check import OPERATION as ROUTING
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable
from nvfp4_moe.verification.contract_probes import ALIGNMENTS, QUANT_PROBES, QUANTIZERS, WIDTHS
from nvfp4_moe.verification.routing_probes import ROUTING_PROBES
from nvfp4_moe.verification.task_child import ChildEnded, TaskChild
from nvfp4_moe.verification.task_messages import Card

PROBE_SECONDS = 120.0
_FIRST_SECONDS = 180.0
"""Of the first probe: kernels are often compiled when they are first called."""

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One measured property."""

    name: str
    told: str
    """What was seen, for people."""
    promises: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the contract that follow."""
    determined: bool = True


@dataclass(frozen=True)
class Description:
    """A subject's measured contract."""

    card: Card
    lines: list[Line]

    @property
    def measured(self) -> dict[str, Any]:
        """The measured fields of the contract; what two operations both limit has the narrower limit."""
        found: dict[str, Any] = {}
        for line in self.lines:
            for name, value in line.promises.items():
                if name == "max_experts":
                    value = min(value, found.get(name, value))
                elif name == "deterministic":
                    value = value and found.get(name, True)
                found[name] = value
        return found

    @property
    def contract(self) -> Contract:
        """The contract: measured fields, the others as the subject declares them."""
        declared = {f.name: getattr(self.card.contract, f.name) for f in fields(Contract)}
        return Contract(**declared | self.measured)

    @property
    def undetermined(self) -> list[str]:
        """Names of the properties that could not be measured."""
        return [line.name for line in self.lines if not line.determined]

    def differs_from(self, contract: Contract) -> dict[str, tuple[Any, Any]]:
        """Return (measured, the contract's) of the measured fields in which they differ."""
        pairs = {name: (value, getattr(contract, name)) for name, value in self.measured.items()}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    @property
    def closest(self) -> list[str]:
        """The presets that differ in the fewest measured fields."""
        counts = {name: len(self.differs_from(preset)) for name, preset in PRESETS.items()}
        return [name for name, count in counts.items() if count == min(counts.values())]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        contract = Card(self.card.name, self.card.device, (), self.contract).to_json()["contract"]
        return {
            "subject": self.card.name,
            "device": self.card.device,
            "operations": list(self.card.operations),
            "properties": [
                {"name": line.name, "told": line.told, "determined": line.determined} for line in self.lines
            ],
            "contract": contract,
            "code": self.contract.as_code(),
            "closest_presets": self.closest,
            "differs_from_preset": sorted(self.differs_from(PRESETS[self.closest[0]])),
            "differs_from_declared": sorted(self.differs_from(self.card.contract)),
            "undetermined": self.undetermined,
        }


def describe(
    spec: str | Subject, *, seed: int = 0, progress: Callable[[str], None] = lambda probe: None
) -> Description:
    """Measure a subject.

    Args:
        spec: what `load_subject` takes, or a Subject with CPU tensors.
        seed: of the cases.
        progress: told of each probe before it runs.

    Raises:
        SubjectError, SubjectUnavailable: see `load_subject`; or there is no operation that can be measured.
    """
    with _Probed(spec) as probed:
        lines = []
        for name in _probes_of(probed.card):
            progress(name)
            answer = probed.ask(name, seed)
            if "died" in answer:
                lines.append(Line(name, f"its process died: {answer['died']}", determined=False))
            else:
                lines += _READERS[name](answer, probed.card)
        return Description(probed.card, lines)


def _probes_of(card: Card) -> list[str]:
    names: list[str] = []
    if any(op in card.operations for op in QUANTIZERS):
        names += [name for name in QUANT_PROBES if name != "graph" or card.device == "cuda"]
    if ROUTING in card.operations:
        names += ROUTING_PROBES
    if not names:
        raise SubjectUnavailable(f"{card.name} has no quantizer and no {ROUTING} to measure")
    return names


class _Probed:
    """The children that answer probes, one after the other. A context."""

    def __init__(self, spec: str | Subject) -> None:
        self._spec = spec
        self._child: TaskChild | None = TaskChild(spec, "probe")
        self._seconds = _FIRST_SECONDS
        try:
            self.card = self._child.card()
        except ChildEnded as ended:
            raise SubjectUnavailable(f"its process died while it loaded: {ended}") from ended
        except BaseException:
            self._child.end()
            raise

    def __enter__(self) -> _Probed:
        return self

    def __exit__(self, *unused: object) -> None:
        if self._child is not None:
            self._child.end()

    def ask(self, probe: str, seed: int) -> Answer:
        """Return a probe's answer, or how the child died of it."""
        if self._child is None:
            self._child = TaskChild(self._spec, "probe")
        seconds, self._seconds = self._seconds, PROBE_SECONDS
        try:
            self._child.tell({"probe": probe, "seed": seed})
            return self._child.message(seconds=seconds)
        except ChildEnded as ended:
            self._child.end()
            self._child = None
            return {"died": str(ended)}


# --- from answers to promises --------------------------------------------------------------------------------


def _recipe(answer: Answer, card: Card) -> Iterator[Line]:
    if answer["answer"] != "ran":
        yield Line("recipe", f"{answer['answer']}: {answer['text']}", determined=False)
        return
    counts = {(recipe, arithmetic): count for recipe, arithmetic, count in answer["differing"]}
    equal = [key for key, count in counts.items() if count == 0]
    if equal:
        recipe, arithmetic = min(equal, key=lambda key: _surprise(key, card))
        others = len(equal) - 1
        told = f"{recipe}, arithmetic {arithmetic}: all {answer['bytes']:,} bytes are equal"
        told += f" ({others} other pairs fit as well)" if others else ""
        yield Line("recipe", told, {"recipe": recipe, "arithmetic": arithmetic.split()[0]})
        return
    reached = [recipe for recipe, count in answer["unreachable"].items() if count == 0]
    nearest, count = min(counts.items(), key=lambda item: item[1])
    said = f"nearest {nearest[0]} ({nearest[1]}): {count:,} of {answer['bytes']:,} bytes differ"
    if reached:
        recipe = min(reached, key=lambda name: name != card.contract.recipe)
        told = f"{recipe} by approximate instructions, every byte ADMISSIBLE, none shown exact; {said}"
        yield Line("recipe", told, {"recipe": recipe, "arithmetic": "hardware"})
    else:
        yield Line("recipe", f"none that is known; {said}", determined=False)


def _surprise(key: tuple[str, str], card: Card) -> tuple[bool, bool, bool]:
    recipe, arithmetic = key
    usual = "hardware" if card.device == "cuda" else "ieee"
    word = arithmetic.split()[0]
    return recipe != card.contract.recipe, word != card.contract.arithmetic, word != usual


def _padding(answer: Answer, card: Card) -> Iterator[Line]:
    del card
    if answer["answer"] != "ran":
        yield Line("padding", f"{answer['answer']}: {answer['text']}", determined=False)
        return
    for name in ("k_padding", "row_padding"):
        held = answer[name]
        if held == "none":  # every accepted width fills its columns
            yield Line(name, "no accepted width has any")
        else:
            yield Line(name, held, {name: "zero" if held == "zero" else "unspecified"})
    if answer["beyond"] not in ("unwritten", "none"):
        yield Line("rows past the last tile", f"written ({answer['beyond']}): nothing may touch them")
    mutates = tuple(answer["mutates"])
    yield Line("mutates", ", ".join(mutates) or "no input", {"mutates": mutates})


def _widths(answer: Answer, card: Card) -> Iterator[Line]:
    del card
    accepted = answer["accepted"]
    if not accepted:
        yield Line("k_multiple", f"no width is accepted: {answer['text']}", determined=False)
        return
    step = gcd(*accepted)
    legal = [k for k in WIDTHS if k % step == 0]
    told = f"{step}; K of {min(accepted)} to {max(accepted)} tried"
    if accepted != legal:
        missing = [k for k in legal if k not in accepted]
        told += f", but not K = {missing[0]}: {answer['text']}"
    elif "text" in answer:
        told += f"; K = {answer['first_other']}: {answer['text']}"
    yield Line("k_multiple", told, {"k_multiple": step}, determined=accepted == legal)


def _experts(answer: Answer, card: Card) -> Iterator[Line]:
    del card
    most = answer["most"]
    if answer["refused_above"]:
        yield Line("max_experts", f"{most}; above: {answer['text']}", {"max_experts": most})
    elif "text" in answer:
        yield Line("max_experts", f"right up to {most}, above not refused", determined=False)
    else:
        yield Line("max_experts", f"none up to {most}")


def _strided(answer: Answer, card: Card) -> Iterator[Line]:
    del card
    if answer["answer"] == "refused":
        yield Line("strided", f"refused: {answer['text']}", {"strided": "refused"})
    elif answer["answer"] == "ran" and answer["same"]:
        yield Line("strided", "honoured", {"strided": "honoured"})
    elif answer["answer"] == "ran":
        yield Line("strided", "misread: other bytes than of its copy, no refusal", determined=False)
    else:
        yield Line("strided", f"{answer['answer']}: {answer['text']}", determined=False)


def _alignment(answer: Answer, card: Card) -> Iterator[Line]:
    del card
    default = Contract()
    needs: dict[str, int] = {}
    told = []
    determined = True
    for name, answers in answer["tensors"].items():
        right = [b for b in ALIGNMENTS if all(answers[str(a)] == "same" for a in ALIGNMENTS if a >= b)]
        least = min(right, default=2 * ALIGNMENTS[0])
        below = answers.get(str(least // 2))
        told.append(f"{name} {least}" + (f" (below: {below})" if below else ""))
        determined &= below in (None, "refused")
        if least > default.alignment_of(name):
            needs[name] = least
    promises = {"alignment": dict(default.alignment) | needs} if needs else {}
    yield Line("alignment", ", ".join(told), promises, determined)


def _repeated(answer: Answer, card: Card) -> Iterator[Line]:
    del card
    if answer["answer"] != "ran":
        yield Line("deterministic", f"{answer['answer']}", determined=False)
        return
    same = answer["same"]
    told = "no difference in repeated calls" if same else "repeated calls differ"
    yield Line("deterministic", told, {"deterministic": same})


def _graph(answer: Answer, card: Card) -> Iterator[Line]:
    del card
    if answer["answer"] == "ran" and answer["same"]:
        yield Line("CUDA graph", "captured and replayed with the same bytes")
    else:
        yield Line("CUDA graph", f"not: {answer['text'] or answer['answer']}")


def _ids(answer: Answer, card: Card) -> Iterator[Line]:
    del card
    right = tuple(dtype for dtype, seen in answer.items() if seen["answer"] == "right")
    told = ", ".join(
        dtype if dtype in right else f"not {dtype} ({seen['answer']}: {seen['text']})"
        for dtype, seen in answer.items()
    )
    promises = {"id_dtypes": right} if right else {}
    silent = [dtype for dtype, seen in answer.items() if seen["answer"] == "wrong"]
    yield Line("id_dtypes", told, promises, determined=bool(right) and not silent)


def _order(answer: Answer, card: Card) -> Iterator[Line]:
    del card
    stable, repeated = answer["stable"], answer["repeated"]
    if stable["answer"] == "right":
        yield Line("row_order", "stable: token order inside each expert", {"row_order": "stable"})
    elif stable["answer"] == "wrong":
        promises = {"row_order": "any", "deterministic": repeated["answer"] == "right"}
        yield Line("row_order", f"any: {stable['text']}", promises)
    else:
        yield Line("row_order", f"{stable['answer']}: {stable['text']}", determined=False)


def _negative(answer: Answer, card: Card) -> Iterator[Line]:
    del card
    if any(seen["answer"] == "right" for seen in answer.values()):
        yield Line("negative_ids", "skipped", {"negative_ids": "skipped"})
    else:
        seen = answer["any"]
        told = f"unsupported: {seen['answer']}: {seen['text']}"
        yield Line("negative_ids", told, {"negative_ids": "unsupported"})


_READERS: dict[str, Callable[[Answer, Card], Iterator[Line]]] = {
    "recipe": _recipe,
    "padding": _padding,
    "widths": _widths,
    "experts": _experts,
    "strided": _strided,
    "alignment": _alignment,
    "repeated": _repeated,
    "graph": _graph,
    "ids": _ids,
    "order": _order,
    "negative": _negative,
    "routing_experts": _experts,
}
"""What each probe's answer means."""
