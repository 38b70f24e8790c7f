"""The report that people read: one HTML page, its JSON, and a Markdown form for a pull request or a CI job summary.

    view = view_run(result, ...)                     # a run of verify in words: verdict, parts, subjects, counterexamples
    memory = memory_of(models, max_num_batched_tokens=8192)
    report = build_report(memory, run=view, ...)     # and what it stands beside: serving, engines, routings, figures
    to_html(report), report.to_json(), to_markdown(report)

The page is one file without script: nothing is fetched, a content security policy forbids it as well. It follows the
reader's light or dark setting and prints.

Names, details and witnesses come from files and from the code under test, so they are foreign text. They are escaped by
jinja2, shown without characters that drive a display, and cut (`text`); figures are checked element by element
(`inline_figures`); Markdown is made harmless (`markdown`). A JSON of `verify` is read without trust (`run_file`).
"""

from __future__ import annotations

from nvfp4_moe.analysis.report.build import Report, build_report, memory_of
from nvfp4_moe.analysis.report.markdown import to_markdown
from nvfp4_moe.analysis.report.page import to_html
from nvfp4_moe.analysis.report.run_file import read_run
from nvfp4_moe.analysis.report.run_view import RunView, view_run

__all__ = ["Report", "RunView", "build_report", "memory_of", "read_run", "to_html", "to_markdown", "view_run"]
