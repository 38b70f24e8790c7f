"""The page in a browser without a screen: nothing runs out of it on a phone, and it follows light and dark.

A browser is no dependency: where there is none, these tests are skipped, and the tests of the page's structure remain.
"""

from __future__ import annotations

import html as html_module
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.analysis.report import Report, to_html

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PHONE, DESKTOP = (390, 844), (1280, 900)
SCHEMES = {"dark": 0, "light": 1}
SECONDS = 60
"""A browser starts in one; a busy machine takes longer."""

PROBE = """<script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach(d => { d.open = true; });
  const width = document.documentElement.clientWidth;
  const seen = e => e.getClientRects().length > 0;
  const out = [...document.querySelectorAll("body *")].filter(e => seen(e) && !e.closest(".scroll, pre, .skip")
    && e.getBoundingClientRect().right > width + 1).map(e => e.tagName + " " + e.textContent.slice(0, 40));
  const luminance = colour => {
    const part = colour.match(/[0-9.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const behind = e => { for (; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$|transparent/.test(colour)) return colour;
  } return "rgb(255, 255, 255)"; };
  const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const contrast = [...document.querySelectorAll("body *")].filter(e => seen(e) && own(e) && !e.closest("svg")).map(e => {
    const [a, b] = [luminance(getComputedStyle(e).color), luminance(behind(e))];
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.tagName + " " + e.textContent.slice(0, 30)];
  });
  const boxes = [...document.querySelectorAll(".scroll")].filter(seen);
  parent.postMessage(JSON.stringify({
    width, page: document.documentElement.scrollWidth, out, back: getComputedStyle(document.body).backgroundColor,
    light: [...document.querySelectorAll(".drawing.light")].filter(seen).length,
    dark: [...document.querySelectorAll(".drawing.dark")].filter(seen).length,
    contrast: contrast.sort((x, y) => x[0] - y[0])[0],
    scrolling: boxes.filter(e => e.scrollWidth > e.clientWidth).length,
  }), "*");
});
</script></body>"""


FRAME = """<!doctype html><html style="color-scheme: light dark"><body><script>
addEventListener("message", event => {{ document.body.dataset.probe = event.data; }});
</script><iframe src="{file}" style="border: 0; width: {width}px; height: {height}px"></iframe></body></html>"""
"""A browser's window has a least width, which is above that of a phone; a frame has none."""


def browse(
    path: Path, *arguments: str, size: tuple[int, int], scheme: str
) -> subprocess.CompletedProcess[str]:
    """Run the browser once on a file."""
    if BROWSER is None:
        pytest.skip("needs chromium")
    command = [
        BROWSER,
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
        "--disable-dev-shm-usage",
        f"--user-data-dir={path.parent / 'profile'}",
        f"--window-size={size[0]},{size[1]}",
        f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
        *arguments,
        path.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)


def probed(html: str, folder: Path, *, size: tuple[int, int], scheme: str) -> dict[str, Any]:
    """Return what the browser measures on the page; its policy is taken out, for it would stop the measuring script."""
    page = re.sub(r"<meta http-equiv[^>]*>", "", html, count=1).replace("</body>", PROBE)
    (folder / "page.html").write_text(page, encoding="utf-8")
    frame = folder / "frame.html"
    frame.write_text(FRAME.format(file="page.html", width=size[0], height=size[1]), encoding="utf-8")
    dumped = browse(frame, "--dump-dom", size=DESKTOP, scheme=scheme).stdout
    (found,) = re.findall(r'data-probe="([^"]*)"', dumped)
    measured: dict[str, Any] = json.loads(html_module.unescape(found))
    return measured


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "light"), (DESKTOP, "dark")], ids=["phone", "desktop"])
def test_nothing_runs_out_of_the_page(
    size: tuple[int, int], scheme: str, report: Report, tmp_path: Path
) -> None:
    found = probed(to_html(report), tmp_path, size=size, scheme=scheme)
    assert found["width"] == size[0]
    assert found["page"] == size[0]
    assert found["out"] == []
    figures = len(report.figures)
    assert (found["light"], found["dark"]) == ((figures, 0) if scheme == "light" else (0, figures))
    assert found["back"] == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(13, 17, 23)")
    least, where = found["contrast"]
    assert least >= 4.5, where
    assert (found["scrolling"] > 0) is (size == PHONE)  # wide tables scroll inside their own box


def test_hostile_text_does_not_widen_a_phone(hostile: str, tmp_path: Path) -> None:
    endless = hostile.replace("98,048", "9" * 3_000)
    found = probed(endless, tmp_path, size=PHONE, scheme="dark")
    assert found["page"] == PHONE[0]
    assert found["out"] == []


def test_the_probe_sees_what_runs_out(report: Report, tmp_path: Path) -> None:
    wide = to_html(replace(report, figures=())).replace(
        "<footer>", '<footer><p style="width: 900px; color: #999">wide</p>'
    )
    found = probed(wide, tmp_path, size=PHONE, scheme="light")
    assert found["page"] > PHONE[0]
    assert found["out"] == ["P wide"]
    assert found["contrast"] == [pytest.approx(2.85, abs=0.01), "P wide"]


def test_the_page_as_it_is_breaks_no_policy_of_its_own(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(to_html(report), encoding="utf-8")
    picture = tmp_path / "page.png"
    done = browse(path, "--enable-logging=stderr", f"--screenshot={picture}", size=DESKTOP, scheme="light")
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    assert picture.stat().st_size > 20_000
