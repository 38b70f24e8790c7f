"""`python -m nvfp4_moe.verification.proofs`: run the proofs alone, or write their SMT-LIB files anew."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nvfp4_moe.verification.proofs.proving import DEFAULT_TIMEOUT_S, prove, write_smt2
from nvfp4_moe.verification.result import EXIT_OK, EXIT_REFUTED, EXIT_UNDECIDED, Verdict


def main(argv: Sequence[str] | None = None) -> int:
    """Run; return 0 if all claims are proved, 1 if one is refuted, else 3."""
    parser = argparse.ArgumentParser(prog="python -m nvfp4_moe.verification.proofs", description=__doc__)
    parser.add_argument("--level", type=int, default=1, choices=(1, 2))
    parser.add_argument(
        "--timeout", type=float, default=DEFAULT_TIMEOUT_S, help="seconds a question (%(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the outcomes as JSON; - is stdout")
    parser.add_argument("--write-smt2", metavar="DIR", type=Path, help="only write the SMT-LIB files to DIR")
    args = parser.parse_args(argv)
    if args.write_smt2 is not None:
        print(f"{len(write_smt2(args.write_smt2))} files in {args.write_smt2}")
        return EXIT_OK
    started = time.perf_counter()
    outcomes = prove(args.level, timeout_s=args.timeout)
    entries = [
        {
            "id": claim_id,
            "method": "proof",
            "verdict": str(outcome.verdict),
            "cases": outcome.cases,
            "detail": outcome.detail,
            "witness": outcome.witness,
        }
        for claim_id, outcome in outcomes
    ]
    if args.json is None:
        for entry in entries:
            print(f"{entry['verdict']:<10} {entry['id']:<20} {entry['detail']}")
        print(f"{time.perf_counter() - started:.1f} s")
    else:
        text = json.dumps(entries, indent=2) + "\n"
        if args.json == "-":
            sys.stdout.write(text)
        else:
            Path(args.json).write_text(text, encoding="utf-8")
    verdicts = {outcome.verdict for _, outcome in outcomes}
    if Verdict.REFUTED in verdicts:
        return EXIT_REFUTED
    return EXIT_OK if verdicts == {Verdict.PROVED} else EXIT_UNDECIDED


if __name__ == "__main__":
    sys.exit(main())
