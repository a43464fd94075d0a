"""Adapters: the ways to a service under test. In process, a served Leyden, or anybody's, by its base URL."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson

from leyden.callbacks.replies import said_from
from leyden.harness.options import KEY
from leyden.sandbox import Sandbox
from leyden.server.contract.types import Contract
from leyden.world.loopback import send_request

RIVAL_KEY = "rival"
PROJECT, RIVAL = "default", "rival"

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed; None when it is not JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


class Target(Protocol):
    """A service under test.

    `shared` says that its keys open one world, with one clock; `controlled` that it has Leyden's control plane;
    `restarts` that it can be stopped and started with its data; `network` that callbacks really leave it. `keys` are
    the projects' keys by the model's name for the project.
    """

    name: str
    shared: bool
    controlled: bool
    restarts: bool
    network: bool
    keys: Mapping[str, str]
    base_url: str

    def begin(self, seed: int, start_ms: int, overlays: Sequence[str], *, disk: bool = False) -> None:
        """A fresh world. Raises a `LeydenError` when this target cannot be made so."""

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> Answer:
        """One request, answered, and everything done that is due at once."""

    def restart(self, scripts: Mapping[str, Any]) -> None:
        """Stop and start the service on its data. `scripts` is what its built-in receivers were told and have still to
        do, by name: a target whose receivers forget it tells them again, before anything happens."""

    def journal_hash(self) -> str | None:
        """The proof of a reproduction, where there is one."""

    def end(self) -> None:
        """The world is no longer needed."""


class InProcess:
    """A sandbox of its own for each run, in this process: milliseconds to make, thousands of steps a second."""

    name = "in process"
    shared = True
    controlled = True
    restarts = True
    network = False
    keys: Mapping[str, str] = {PROJECT: KEY, RIVAL: RIVAL_KEY}
    base_url = "http://localhost"

    def __init__(self, spec: str | Path | Contract | None = None) -> None:
        self._spec = spec
        self._sandbox: Sandbox | None = None
        self._folder: Path | None = None
        self._overlays: tuple[str, ...] = ()

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of the run that was begun last."""
        assert self._sandbox is not None, "begin() comes first"
        return self._sandbox

    def begin(self, seed: int, start_ms: int, overlays: Sequence[str], *, disk: bool = False) -> None:
        """A fresh sandbox, in memory or, for restarts, in a directory of its own."""
        self.end()
        logging.getLogger("leyden").disabled = True  # a defect that is found is told in our own words
        self._folder = Path(tempfile.mkdtemp(prefix="leyden-harness-")) if disk else None
        self._overlays = tuple(overlays)
        self._sandbox = Sandbox(
            seed, start_ms, data=None if self._folder is None else self._folder / "data",
            spec=self._spec, overlays=self._overlays, api_key=KEY,
        )  # fmt: skip
        with self._sandbox.world.exclusive():
            self._sandbox.world.service.projects.add(RIVAL, RIVAL_KEY)

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> Answer:
        """One request through the loopback."""
        world = self.sandbox.world
        raw = tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers)
        answer = send_request(world.app, method, target, raw, body)
        world.catch_up()
        named = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
        return Answer(answer.status, named, answer.body)

    def restart(self, scripts: Mapping[str, Any]) -> None:
        """Close the directory and open it again."""
        assert self._folder is not None, "only a world on disk is there after it was closed"
        self.sandbox.close()
        self._sandbox = Sandbox(
            data=self._folder / "data", spec=self._spec, overlays=self._overlays, api_key=KEY
        )  # fmt: skip
        world = self._sandbox.world
        for name, script in scripts.items():
            told = world.receivers.receiver(name)
            told.always(said_from(script["always"])).answers([said_from(one) for one in script["answers"]])
        world.catch_up()

    def journal_hash(self) -> str | None:
        """The hash of the sandbox's journal."""
        return self.sandbox.world.journal.hash

    def end(self) -> None:
        """Close the sandbox and remove its directory."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        logging.getLogger("leyden").disabled = False
