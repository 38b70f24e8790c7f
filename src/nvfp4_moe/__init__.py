"""NVFP4 mixture-of-experts quantization and padding: golden model, kernels, verification.

The sub-packages are `reference` (golden model, torch only), `cuda` (kernels and host twin), `verification`
(claims, proofs, fuzzing, conformance) and `analysis` (memory and serving capacity). Importing this package
imports none of them.
"""

__version__ = "0.2.0"
