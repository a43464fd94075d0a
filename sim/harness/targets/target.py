"""Targets: the services under test. This file has the protocol and the sandbox in process."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import orjson

from leyden.callbacks.replies import parse_reply
from leyden.harness.constants import API_KEY
from leyden.sandbox import Sandbox
from leyden.server.contract.types import Contract
from leyden.world.config import world_config
from leyden.world.loopback import send_request

SECOND_API_KEY = "second"
# The kinds of targets: a sandbox in this process, `leyden serve`, and another implementation.
IN_PROCESS, SERVED, EXTERNAL = TARGET_KINDS = ("in process", "served", "another implementation")
PROJECT, SECOND_PROJECT = "default", "second"

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Response:
    """A response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The JSON value of the body; None if it is not JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


class Target(Protocol):
    """A service under test.

    `kind` is one of `TARGET_KINDS`. `shared`: its API keys belong to projects of one sandbox with one clock.
    `controlled`: it has Leyden's control plane. `restarts`: it can be stopped and started on its data. `network`: it
    sends callbacks over the network. `keys` has the API keys by the model's name of the project.
    """

    name: str
    kind: str
    shared: bool
    controlled: bool
    restarts: bool
    network: bool
    keys: Mapping[str, str]
    base_url: str

    def begin(self, seed: int, start_ms: int, overlays: Sequence[str], *, disk: bool = False) -> None:
        """Start anew. Raises a `LeydenError` if the target cannot start with these overlays."""

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> Response:
        """Send a request and return its response, after the target has done what is due now."""

    def restart(self, scripts: Mapping[str, Any]) -> None:
        """Stop the service and start it on its data. `scripts` has the remaining script of each built-in receiver, by
        its name; receivers that lose theirs get it again before anything else happens."""

    def specification(self, overlays: Sequence[str]) -> Mapping[str, Any] | None:
        """The document that the target serves after a start with these overlays; None where it is not known."""

    def journal_hash(self) -> str | None:
        """The hash of the journal; None where there is no journal."""

    def end(self) -> None:
        """Free what the target uses."""


class InProcess:
    """A sandbox in this process, a new one for each run. It starts in milliseconds."""

    name = "in process"
    kind = IN_PROCESS
    shared = True
    controlled = True
    restarts = True
    network = False
    keys: Mapping[str, str] = {PROJECT: API_KEY, SECOND_PROJECT: SECOND_API_KEY}
    base_url = "http://localhost"

    def __init__(self, spec: str | Path | Contract | None = None) -> None:
        self._spec = spec
        self._sandbox: Sandbox | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._overlays: tuple[str, ...] = ()

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of the present run."""
        assert self._sandbox is not None, "begin() comes first"
        return self._sandbox

    def begin(self, seed: int, start_ms: int, overlays: Sequence[str], *, disk: bool = False) -> None:
        """Create a new sandbox, in memory or, with `disk`, in a temporary directory."""
        self.end()
        logging.getLogger("leyden").disabled = True  # the harness reports a defect itself
        self._folder = TemporaryDirectory(prefix="leyden-harness-", ignore_cleanup_errors=True) if disk else None
        self._overlays = tuple(overlays)
        self._sandbox = Sandbox(
            seed, start_ms, data=None if self._folder is None else Path(self._folder.name, "data"),
            spec=self._spec, overlays=self._overlays, api_key=API_KEY,
        )  # fmt: skip
        with self._sandbox.world.exclusive():
            self._sandbox.world.service.projects.add(SECOND_PROJECT, SECOND_API_KEY)

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> Response:
        """Send a request through the loopback transport."""
        world = self.sandbox.world
        raw = tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers)
        response = send_request(world.app, method, target, raw, body)
        world.catch_up()
        names_and_values = {name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
        return Response(response.status, names_and_values, response.body)

    def restart(self, scripts: Mapping[str, Any]) -> None:
        """Close the directory and open it again."""
        assert self._folder is not None, "a restart needs a run with disk=True"
        self.sandbox.close()
        self._sandbox = Sandbox(
            data=Path(self._folder.name, "data"), spec=self._spec, overlays=self._overlays, api_key=API_KEY
        )  # fmt: skip
        world = self._sandbox.world
        for name, script in scripts.items():
            world.receivers.receiver(name).always(parse_reply(script["always"])).answers(
                [parse_reply(one) for one in script["answers"]]
            )
        world.catch_up()

    def specification(self, overlays: Sequence[str]) -> Mapping[str, Any]:
        """The document of the sandboxes with these overlays."""
        return world_config(seed=0, start_ms=0, spec=self._spec, overlays=overlays, control=False).contract.document

    def journal_hash(self) -> str | None:
        """The hash of the journal of the present sandbox."""
        return self.sandbox.world.journal.hash

    def end(self) -> None:
        """Close the sandbox and remove its directory."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        logging.getLogger("leyden").disabled = False
