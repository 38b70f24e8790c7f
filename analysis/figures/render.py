"""A figure as SVG text or PNG bytes: the same bytes for the same figure and matplotlib."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator
from xml.sax.saxutils import quoteattr

from matplotlib.figure import Figure

from nvfp4_moe.analysis.figures.theme import FONT, only, plain

PNG_DPI = 160
_FAMILY = f"font-family: '{FONT}'"
_FALLBACK = f"{_FAMILY}, Verdana, sans-serif"
_TAG = re.compile(r"<[^>]*>")
_LONG_DECIMAL = re.compile(r"(\.\d\d)\d+")
_IDS = re.compile(r'\b(id="|xlink:href="#|href="#|url\(#)')
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


def to_svg(figure: Figure, *, name: str, label: str) -> str:
    """Return one `<svg>` element, fit to stand inside an HTML page beside others, or alone in a file.

    Text stays text: it can be searched and is small. Ids begin with `name`, and styles hold for this element alone, so that
    figures of one page do not meet. Places are rounded to hundredths of a point. The element has a role and `label` for those who cannot see it. No date, no version.

    Args:
        figure: what to draw.
        name: lower-case letters, digits, - and _; another for each figure of a page.
        label: what the figure shows, in a sentence.

    Raises:
        ValueError: a name with other characters.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"name must be lower-case letters, digits, - and _, got {name!r:.60}")
    out = io.StringIO()
    with only({"svg.fonttype": "none", "svg.hashsalt": name}), _any_glyph():
        figure.savefig(
            out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text = out.getvalue()
    text = _TAG.sub(lambda tag: _LONG_DECIMAL.sub(r"\1", tag[0]), text[text.index("<svg") :])
    text = _IDS.sub(lambda match: f"{match[1]}{name}-", text)
    text = text.replace("*{", f"#{name} *{{").replace(_FAMILY, _FALLBACK)
    attributes = f'id="{name}" role="img" aria-label={quoteattr(plain(" ".join(label.split())))}'
    text = text.replace("<svg", f"<svg {attributes}", 1)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def to_png(figure: Figure, *, dpi: int = PNG_DPI) -> bytes:
    """Return the bytes of a PNG file."""
    out = io.BytesIO()
    with only({}), _any_glyph():
        figure.savefig(out, format="png", dpi=dpi, metadata={"Software": None})
    return out.getvalue()


@contextlib.contextmanager
def _any_glyph() -> Iterator[None]:
    """Let names in scripts that the font lacks pass: an SVG shows them in the reader's fonts, a PNG as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
