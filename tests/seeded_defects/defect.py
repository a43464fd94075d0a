"""A defect: its description, the rule that it violates, how it is planted, and the probe that detects it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from leyden import Sandbox

Make = Callable[..., Sandbox]
Plant = Callable[[], AbstractContextManager[Any]]
Probe = Callable[[Make], bool]

KINDS = (
    "input",
    "echo",
    "contract",
    "keys",
    "state",
    "time",
    "slots",
    "races",
    "invoice",
    "callbacks",
    "idempotency",
    "lists",
    "lnurl",
    "restart",
)


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect of the service; `description` is one sentence.

    `violates` names the rule: `decision: amounts` (an entry of DECISIONS.md), `row: Charge pending expiry_reached` (a
    row of an `x-lifecycle`), or `spec: /paths/...` (a JSON pointer into `charges.openapi.yaml`). While the context
    manager of `plant` is active, every new sandbox has the defect. `probe` gets a function that creates sandboxes, and
    returns whether it detects the defect in them.
    """

    name: str
    kind: str
    description: str
    violates: str
    plant: Plant
    probe: Probe


def seeded(kind: str, description: str, *, violates: str, plant: Plant) -> Callable[[Probe], Defect]:
    """A decorator that makes a defect of its probe. The name of the function, with hyphens, is that of the defect."""

    def make(probe: Probe) -> Defect:
        return Defect(probe.__name__.replace("_", "-"), kind, description, violates, plant, probe)

    return make


@contextmanager
def planted(defect: Defect) -> Iterator[Defect]:
    """A context in which every `Sandbox(...)` that is created and used in this process has the defect.

    The specification that the sandbox serves does not change; only the service violates it. Raises `AttributeError`,
    `LookupError` or `TypeError` if the code that the defect changes no longer exists.
    """
    with defect.plant():
        yield defect
