"""`BadInput`: the base of errors that input from outside causes while a check already runs.

Traces and stores are read while they are worked on, and a written bound may lack a value at sizes that only a check
meets, so their faults can come late. They are the input's, not ours: a run ends with them and exit code 2, whereas any other exception leaves the claims of its check undecided.
"""

from __future__ import annotations


class BadInput(ValueError):
    """Input from outside that cannot be used: names it, what is wrong, and what is legal."""
