"""Try an installed wheel in an environment made for it (run by .ci/run, away from the checkout).

Usage: python -I tools/check_install.py torch-only|command-line

`torch-only`: the environment has the wheel and torch; the golden model must import and quantize, without numpy.
`command-line`: it has the runtime dependencies as well; the command must answer.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import sysconfig
from pathlib import Path

ABSENT = ("numpy", "click", "rich", "z3", "cvc5", "hypothesis")
BOUND = ("bound", "--experts", "256", "--topk", "8", "--max-num-batched-tokens", "8192", "--json", "-")
PROPOSED_ROWS = 98_048
"""8192*8 + 127*256."""


def torch_only() -> None:
    """Quantize a row with torch alone."""
    present = [name for name in ABSENT if importlib.util.find_spec(name)]
    assert not present, f"this environment was to have torch alone, but it has {present}"
    import torch

    from nvfp4_moe.reference.quantize import quantize

    block = torch.tensor([[0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -6.0] * 2], dtype=torch.bfloat16)
    result = quantize(block, 1.0)
    assert result.block_scale.tolist() == [[0x38]], result.block_scale  # 1.0: the block's largest value is 6
    assert result.packed.tolist() == [[0x21, 0x43, 0x65, 0xF7] * 2], result.packed


def command_line() -> None:
    """Run the installed command."""
    command = str(Path(sysconfig.get_path("scripts")) / "nvfp4-moe")
    subprocess.run([command, "--help"], check=True)
    done = subprocess.run([command, *BOUND], check=True, capture_output=True, text=True)
    rows = json.loads(done.stdout)["rows"]
    assert rows["proposed"] == PROPOSED_ROWS, rows
    wrong = subprocess.run([command, "bound", "--experts", "0"], check=False, capture_output=True, text=True)
    assert wrong.returncode == 2, wrong
    assert "Traceback" not in wrong.stderr, wrong.stderr


CHECKS = {"torch-only": torch_only, "command-line": command_line}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in CHECKS:
        sys.exit(f"usage: python -I tools/check_install.py {'|'.join(CHECKS)}")
    CHECKS[sys.argv[1]]()
    print(f"{sys.argv[1]}: ok")
