"""The catalogue of known-wrong variants: what the harness must refute, class by class of public faults.

- `mutant`: `Mutant`, its targets, `PublicFault`, the fault classes;
- `class_a` to `class_u`: one module a class, each with `FAULTS` and `MUTANTS`;
- `wrap`: wrong subjects made of the right one;
- `catalogue`: all variants, checked as a whole.
"""
