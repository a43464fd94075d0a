"""Where Schemathesis tries a service: a world behind it that is exchanged for a fresh one, and a witness beside it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from leyden.harness.checks.invariants import Witness
from leyden.harness.generators.generators import START_MS
from leyden.harness.model.charges import Cell
from leyden.harness.model.rules import Reading
from leyden.harness.options import NOBODY
from leyden.harness.runs.adapters import PROJECT, RIVAL, Answer, InProcess, Target
from leyden.world.config import packaged_contract
from leyden.world.merged_openapi import merged

_LOOKS = ["listPayments", "getPayment", "listDeliveries", "getDelivery"]
_SEED = 5


class Bench:
    """A service to try. A Leyden has a fresh world each time; anybody else's service goes on where it stands.

    `seen` are the cells that were reached, `cases` how many answers were judged, `unchecked` what cannot be looked at
    there.
    """

    def __init__(self, target: Target, overlays: Sequence[str]) -> None:
        self._target = target
        self.overlays = tuple(overlays)
        self.key, self._rival_key = target.keys[PROJECT], target.keys[RIVAL]
        self.seen: dict[Cell, None] = {}
        self.cases = 0
        self.unchecked: dict[str, None] = {}
        self.witness = self._witness()
        if not target.controlled:
            self.unchecked["what payments and time do: Schemathesis knows no levers but Leyden's"] = None
            self.unchecked["callbacks: Schemathesis sees only answers there"] = None
        if self._rival_key == NOBODY:
            self.unchecked["that projects do not see each other: give another project's key"] = None

    def begin(self) -> None:
        """A fresh world, where there can be one."""
        self.close()
        self._target.begin(_SEED, START_MS, self.overlays)
        self.witness = self._witness()

    def close(self) -> None:
        """The world is over; what was seen in it is kept."""
        self.seen.update(self.witness.seen)
        self._target.end()

    def schema(self) -> Any:
        """The document that Schemathesis is given, and the way to who answers: the merged document, or the service's
        where there is no control plane."""
        from schemathesis import openapi

        document = packaged_contract("charges", self.overlays).document
        if self._target.controlled:
            document = merged(document, packaged_contract("sandbox").document)
        # A copy: Schemathesis writes links of its own into what it is given. In short scenarios from fresh worlds there
        # is little to list: what is seen there the witness sees.
        schema = openapi.from_dict(deepcopy(dict(document))).exclude(operation_id=_LOOKS)
        if isinstance(self._target, InProcess):
            schema.app = _Present(self._target)
        else:
            schema.config.update(base_url=self._target.name.rstrip("/"))
        return schema

    def _witness(self) -> Witness:
        reading = Reading.of(self.overlays)
        return Witness(self._read, reading, self.key, self._rival_key, controlled=self._target.controlled)

    def _read(self, path: str, key: str) -> Answer:
        return self._target.send("GET", path, [("apikey", key)], b"")


class _Present:
    """The application that leads to whichever world is the present one, and does at once what is due at once."""

    def __init__(self, target: InProcess) -> None:
        self._target = target

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            # The client's own beginning and end have nothing to do with those of a world.
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        sandbox = self._target.sandbox
        await sandbox.app(scope, receive, send)
        sandbox.world.catch_up()
