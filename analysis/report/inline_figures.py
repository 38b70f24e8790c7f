"""Figures as SVG inside the page: each in light and in dark, checked element by element.

A figure holds foreign text (names of models and traces). It is parsed before it goes in, and only what drawings consist of
is let through: no script, no link out of the page, no handler. Ids begin with the figure's and theme's name, so that those
of several figures never meet.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nvfp4_moe.analysis import figures
from nvfp4_moe.analysis.savings import Savings
from nvfp4_moe.analysis.savings_padding import PaddingUse
from nvfp4_moe.analysis.zoo_shape import Shard

NO_FIGURES = "Figures are left out: matplotlib is not installed. pip install 'nvfp4-moe[plots]' and make the report again."
MOST_SERIES = 60
"""Sources of routings that one figure shows."""

_ELEMENTS = frozenset(
    (
        *("svg", "g", "defs", "style", "path", "rect", "circle", "text", "tspan", "use", "clipPath", "image"),
        *("title", "desc", "linearGradient", "stop", "pattern", "marker"),
    )
)
_REFERENCES = frozenset({"href", "{http://www.w3.org/1999/xlink}href"})
_SVG = "{http://www.w3.org/2000/svg}"
_REMOTE = re.compile(r"@import|url\(\s*['\"]?(?!#)|expression\(", re.IGNORECASE)
_DATA_IMAGE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=\s]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineFigure:
    """One figure of a page."""

    name: str
    """Stem of its ids."""
    caption: str
    label: str
    """What it shows, for those who cannot see it."""
    light: str
    """SVG markup, checked."""
    dark: str


def draw_all(
    savings: Savings,
    *,
    uses: Sequence[PaddingUse],
    shards: Sequence[Shard],
    progress: Callable[[str], None] = lambda step: None,
) -> tuple[list[InlineFigure], list[str]]:
    """Return the figures of a report, and what is missing in words.

    Args:
        savings, uses, shards: as `figures.plan.plan_figures` takes them.
        progress: told of every figure before it is drawn.
    """
    if not figures.available():
        return [], [NO_FIGURES]
    from nvfp4_moe.analysis.figures.plan import plan_figures
    from nvfp4_moe.analysis.figures.render import to_svg
    from nvfp4_moe.analysis.figures.theme import THEMES

    drawn = []
    for planned in plan_figures(savings, uses=uses[:MOST_SERIES], shards=shards):
        progress(f"figure {planned.name}")
        svg = {
            theme.name: to_svg(planned.draw(theme), name=f"{planned.name}-{theme.name}", label=planned.label)
            for theme in THEMES.values()
        }
        for text in svg.values():
            check_svg(text)
        drawn.append(
            InlineFigure(
                name=planned.name,
                caption=planned.caption,
                label=planned.label,
                light=svg["light"],
                dark=svg["dark"],
            )
        )
    return drawn, []


def check_svg(text: str) -> None:
    """Refuse markup that is more than a drawing.

    Raises:
        ValueError: not well-formed, or an element or attribute that is not known to be harmless; the text names it.
    """
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"a figure is not well-formed: {error}") from error
    for element in root.iter():
        name = str(element.tag)
        if not name.startswith(_SVG) or name.removeprefix(_SVG) not in _ELEMENTS:
            raise ValueError(f"a figure holds an element {name!r:.60}, which no drawing needs")
        if name == f"{_SVG}style" and ("<" in (element.text or "") or _REMOTE.search(element.text or "")):
            raise ValueError("a figure's style sheet refers to something outside")
        for key, value in element.attrib.items():
            if key.lower().startswith("on") or _REMOTE.search(value):
                raise ValueError(f"a figure holds an attribute {key!r:.60} with {value!r:.60}")
            if key in _REFERENCES and not (value.startswith("#") or _DATA_IMAGE.fullmatch(value)):
                raise ValueError(f"a figure refers to {value!r:.60}, which is not part of the page")
