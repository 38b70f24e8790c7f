"""Bring docs/faults.md up to the catalogue of known-wrong variants, without running it: `python tools/fault_page.py`.

What the last run found stays on the page. A whole new page, with what refutes each variant and the matrix, comes from
`nvfp4-moe mutants --matrix --page docs/faults.md`, which takes many minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nvfp4_moe.verification.mutants.page import refreshed

PAGE = Path(__file__).resolve().parents[1] / "docs" / "faults.md"


def main() -> int:
    """Rewrite the page; return 0."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(refreshed(text), encoding="utf-8")
    print(f"{PAGE}: current")
    return 0


if __name__ == "__main__":
    sys.exit(main())
