"""`python -m nvfp4_moe.verification.proofs`: run the proofs alone, prove a written bound, or write the SMT-LIB files."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nvfp4_moe.verification.proofs.proving import (
    DEFAULT_TIMEOUT_S,
    ProvedClaim,
    prove_claims,
    write_smt2,
)
from nvfp4_moe.verification.result import EXIT_OK, EXIT_REFUTED, EXIT_UNDECIDED, EXIT_USAGE, Verdict


def main(argv: Sequence[str] | None = None) -> int:
    """Run; return 0 if all claims are proved, 1 if one is refuted, 2 for a bound that does not parse, else 3."""
    args = _parser().parse_args(argv)
    if args.write_smt2 is not None:
        print(f"{len(write_smt2(args.write_smt2))} files in {args.write_smt2}")
        return EXIT_OK
    start = time.perf_counter()
    try:
        claims = (
            _written_bound(args) if args.bound else list(prove_claims(args.level, timeout_s=args.timeout))
        )
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    _report(claims, args.json, seconds=time.perf_counter() - start)
    verdicts = {claim.outcome.verdict for claim in claims}
    if Verdict.REFUTED in verdicts:
        return EXIT_REFUTED
    return EXIT_OK if verdicts == {Verdict.PROVED} else EXIT_UNDECIDED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nvfp4_moe.verification.proofs", description=__doc__)
    parser.add_argument("--level", type=int, default=1, choices=(1, 2))
    parser.add_argument(
        "--timeout", type=float, default=DEFAULT_TIMEOUT_S, help="seconds a question (%(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the outcomes as JSON; - is stdout")
    parser.add_argument("--bound", metavar="EXPRESSION", help="prove this bound instead")
    parser.add_argument("--tile", type=int, default=128, help="rows of a tile for --bound (%(default)s)")
    parser.add_argument("--write-smt2", metavar="DIR", type=Path, help="only write the SMT-LIB files to DIR")
    return parser


def _written_bound(args: argparse.Namespace) -> list[ProvedClaim]:
    # Here, because these load torch, which the proofs do without.
    from nvfp4_moe.verification.expressions import parse
    from nvfp4_moe.verification.proofs.expression import prove_expression

    start = time.perf_counter()
    outcome = prove_expression(parse(args.bound), tile=args.tile, timeout_s=args.timeout)
    return [ProvedClaim("padding.bound.written", outcome, time.perf_counter() - start)]


def _report(claims: Sequence[ProvedClaim], target: str | None, *, seconds: float) -> None:
    if target is None:
        for claim in claims:
            print(f"{claim.outcome.verdict:<10} {claim.claim_id:<20} {claim.outcome.detail}")
        print(f"{seconds:.1f} s")
        return
    text = json.dumps([_entry(claim) for claim in claims], indent=2) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text, encoding="utf-8")


def _entry(claim: ProvedClaim) -> dict[str, Any]:
    outcome = claim.outcome
    return {
        "id": claim.claim_id,
        "method": "proof",
        "verdict": str(outcome.verdict),
        "cases": outcome.cases,
        "seconds": round(claim.seconds, 3),
        "detail": outcome.detail,
        "witness": outcome.witness,
    }


if __name__ == "__main__":
    sys.exit(main())
