"""Machine-checked proofs of the claims about padding, placement, swizzled layouts and index arithmetic.

Each claim is cut into obligations (`padding`, `placement`, `swizzle`, `index`); each obligation is printed as
SMT-LIB 2 (the files in `smt2/` are these texts, and a test compares them), and counts as proved only if z3 and cvc5,
each with its own parser, both find its negation unsatisfiable. Integers are unbounded and tile, rows, experts and
columns symbolic, so that the proofs hold for all sizes; only `index` speaks about 32-bit words.

`expression.prove_expression` does the same for a bound that a user wrote; it is not imported here, so that a process
that only proves does not load torch. `python -m nvfp4_moe.verification.proofs --help` runs the proofs alone.
"""

from nvfp4_moe.verification.proofs.obligation import Obligation as Obligation
from nvfp4_moe.verification.proofs.proving import obligations as obligations
from nvfp4_moe.verification.proofs.proving import prove as prove
from nvfp4_moe.verification.proofs.proving import prove_claims as prove_claims
from nvfp4_moe.verification.proofs.proving import write_smt2 as write_smt2
