"""Where Schemathesis tries a service: a world behind it that is exchanged for a fresh one, and a witness beside it."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from sim.harness.adapters import KEY, PROJECT, RIVAL, RIVAL_KEY, Answer, InProcess, Target
from sim.harness.model_rules import Reading
from sim.harness.rules import START_MS
from sim.harness.witness import Cell, Witness
from sim.loopback import ask
from sim.merged import merged
from sim.plans import packaged_contract
from sim.sandbox import Sandbox

_LOOKS = ["listPayments", "getPayment", "listDeliveries", "getDelivery"]
_SEED = 5


class Bench(ABC):
    """A service to try. `seen` are the cells that were reached, `cases` how many answers were judged, `unchecked` what
    cannot be looked at there."""

    key: str
    rival_key: str
    controlled = True

    def __init__(self, overlays: Sequence[str]) -> None:
        self.overlays = tuple(overlays)
        self.seen: dict[Cell, None] = {}
        self.cases = 0
        self.unchecked: dict[str, None] = {}
        self.witness = self._witness()

    @abstractmethod
    def begin(self) -> None:
        """A fresh world, where there can be one."""

    def close(self) -> None:
        """The world is over; what was seen in it is kept."""
        self.seen.update(self.witness.seen)

    @abstractmethod
    def read(self, path: str, key: str) -> Answer:
        """Look at the world."""

    def schema(self) -> Any:
        """The document that Schemathesis is given: the merged one, or the service's where there is no control plane."""
        from schemathesis import openapi

        service = packaged_contract("charges", self.overlays).document
        control = packaged_contract("sandbox").document
        # In short scenarios from fresh worlds there is little to list: what is seen there the witness sees.
        both = merged(service, control) if self.controlled else dict(service)
        return openapi.from_dict(both).exclude(operation_id=_LOOKS)

    def _witness(self) -> Witness:
        return Witness(
            self.read, Reading.of(self.overlays), self.key, self.rival_key, controlled=self.controlled
        )  # fmt: skip


class BenchInProcess(Bench):
    """A sandbox in this process, and the application that leads to whichever is the present one."""

    key, rival_key = KEY, RIVAL_KEY
    _sandbox: Sandbox | None = None

    def begin(self) -> None:
        """A fresh sandbox."""
        self.close()
        logging.getLogger("leyden").disabled = True
        self._sandbox = Sandbox(_SEED, overlays=self.overlays, api_key=KEY)
        with self._sandbox.world.turn():
            self._sandbox.world.service.projects.add(RIVAL, RIVAL_KEY)
        self.witness = self._witness()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The application, which does at once what is due at once, as a served one would."""
        if scope["type"] == "lifespan":
            # The client's own beginning and end have nothing to do with those of a world.
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        assert self._sandbox is not None
        await self._sandbox.app(scope, receive, send)
        self._sandbox.world.catch_up()

    def schema(self) -> Any:
        """The merged document, answered by this application."""
        schema = super().schema()
        schema.app = self
        return schema

    def read(self, path: str, key: str) -> Answer:
        """Look at the world."""
        assert self._sandbox is not None
        answer = ask(self._sandbox.app, "GET", path, ((b"apikey", key.encode()),))
        return Answer(answer.status, {name.decode(): value.decode() for name, value in answer.headers}, answer.body)

    def close(self) -> None:
        """The sandbox is over."""
        super().close()
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None
            logging.getLogger("leyden").disabled = False


class BenchServed(Bench):
    """A service at a URL. A served Leyden is reset for each world; anybody else's goes on where it stands."""

    def __init__(self, target: Target, overlays: Sequence[str]) -> None:
        self._target = target
        self.key, self.rival_key = target.keys[PROJECT], target.keys[RIVAL]
        self.controlled = target.controlled
        super().__init__(overlays)
        if not target.controlled:
            self.unchecked["what payments and time do: Schemathesis knows no levers but Leyden's"] = None
            self.unchecked["callbacks: Schemathesis sees only answers there"] = None
        if self.rival_key == "nobody":
            self.unchecked["that projects do not see each other: give another project's key"] = None

    def begin(self) -> None:
        """Reset the world, where it can be."""
        self.close()
        self._target.begin(_SEED, START_MS, self.overlays)
        self.witness = self._witness()

    def schema(self) -> Any:
        """The document, and where its service is."""
        schema = super().schema()
        schema.config.update(base_url=self._target.name.rstrip("/"))
        return schema

    def read(self, path: str, key: str) -> Answer:
        """Look at the world."""
        return self._target.send("GET", path, [("apikey", key)], b"")

    def close(self) -> None:
        """Hang up."""
        super().close()
        self._target.end()


def bench_for(target: Target, overlays: Sequence[str]) -> Bench:
    """Where Schemathesis tries a target."""
    return BenchInProcess(overlays) if isinstance(target, InProcess) else BenchServed(target, overlays)
