"""A defect: what is wrong, which promise it breaks, how it is planted, and how one sees that it is there."""

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
    """One thing that is wrong, in one sentence (`story`).

    `breaks` names one promise: `decision: amounts` (an entry of DECISIONS.md), `row: Charge pending expiry_reached` (a
    row of an `x-lifecycle`), or `spec: /paths/...` (a JSON pointer into `charges.openapi.yaml`). While the context
    that `plant` gives is open, every sandbox that is made has the defect. `probe` is given something to make sandboxes
    with and tells whether it sees the defect in them.
    """

    name: str
    kind: str
    story: str
    breaks: str
    plant: Plant
    probe: Probe


def seeded(kind: str, story: str, *, breaks: str, plant: Plant) -> Callable[[Probe], Defect]:
    """Make a defect of a probe: the function's name is the defect's, with hyphens."""

    def make(probe: Probe) -> Defect:
        return Defect(probe.__name__.replace("_", "-"), kind, story, breaks, plant, probe)

    return make


@contextmanager
def planted(defect: Defect) -> Iterator[Defect]:
    """While inside, every `Sandbox(...)` that is made and used in this process has the defect.

    The specification that the sandbox serves, and the one its receivers judge by, stay what they are: the service
    breaks its word, it does not give another one. Raises (`AttributeError`, `LookupError`, `TypeError`) when the place
    at which the service is bent is no longer there.
    """
    with defect.plant():
        yield defect
