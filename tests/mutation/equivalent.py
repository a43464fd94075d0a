"""Mutants that were met in a sample and cannot be noticed, each with its reason."""

from __future__ import annotations

from tests.mutation.mutants import Mutant

# The module, the original code and the mutated code, and why no answer and no callback can differ.
EQUIVALENT: dict[tuple[str, str, str], str] = {}


def name_of(mutant: Mutant) -> tuple[str, str, str]:
    """The module, the original code and the mutated code, each in one line."""
    return mutant.module, " ".join(mutant.was.split()), " ".join(mutant.now.split())


def reason(mutant: Mutant) -> str:
    """Why the mutant cannot be noticed; empty if it can, or if nobody has looked."""
    return EQUIVALENT.get(name_of(mutant), "")
