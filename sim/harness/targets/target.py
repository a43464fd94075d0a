"""Targets: the services under test. This file has the protocol and the sandbox in process."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, Self

import orjson

from leyden.harness.constants import API_KEY
from leyden.sandbox import Sandbox
from leyden.server.contract.types import Contract
from leyden.server.errors import StoreError
from leyden.server.store.journal import JOURNAL_NAME, DamagedJournal, recover
from leyden.world.config import world_config
from leyden.world.loopback import send_request

SECOND_API_KEY = "second"
# The kinds of targets: a sandbox in this process, `leyden serve`, and another implementation.
IN_PROCESS, SERVED, EXTERNAL = TARGET_KINDS = ("in process", "served", "another implementation")
PROJECT, SECOND_PROJECT = "default", "second"
_ROOM = 256 << 20  # bytes
# How a service stops before it starts on its data again: closed; killed; killed while it wrote a commit; closed after a
# compaction of its journal; closed, started and closed; killed and closed, and it must refuse its data with each of the
# `DAMAGES`, and a second sandbox while it runs, and nobody else may read its files; a snapshot to which it returns;
# closed, and started with a former key.
RESTARTS = ("close", "kill", "torn", "compact", "twice", "damaged", "snapshot", "replaced_key")
DAMAGES: Mapping[str, Callable[[bytes], bytes | None]] = {
    "without its last line": lambda text: text[: text.rindex(b"\n", 0, -1) + 1],
    "without its last two lines": lambda text: text[: text.rindex(b"\n", 0, text.rindex(b"\n", 0, -1)) + 1],
    "with another byte in its middle": lambda text: text[: len(text) // 2] + b"~" + text[len(text) // 2 + 1 :],
    "with two lines in the other order": lambda text: b"".join(_exchanged(text.splitlines(keepends=True))),
    "with its last line twice": lambda text: text + text[text.rindex(b"\n", 0, -1) + 1 :],
    "empty": lambda text: b"",
    "without its end, from the middle of a line": lambda text: text[: _middle_of_a_line(text)],
    "with another byte in its last line": lambda text: text[:-9] + bytes([text[-9] ^ 1]) + text[-8:],
    "missing": lambda text: None,
}

Headers = Sequence[tuple[str, str]]


def _new_folder() -> TemporaryDirectory[str]:
    """A temporary directory, in memory if there is room: each start and stop waits for the disk several times."""
    place = Path("/dev/shm")
    roomy = place.is_dir() and os.access(place, os.W_OK) and shutil.disk_usage(place).free > _ROOM
    return TemporaryDirectory(prefix="leyden-harness-", dir=place if roomy else None, ignore_cleanup_errors=True)


def _middle_of_a_line(text: bytes) -> int:
    """The middle of a line before the last two."""
    end = text.rindex(b"\n", 0, text.rindex(b"\n", 0, text.rindex(b"\n", 0, -1)))
    return (text.rfind(b"\n", 0, end) + 1 + end) // 2


def _readable_by_others(folder: Path) -> list[Path]:
    """The directory and those of its files that other users of the machine may use."""
    return [path for path in (folder, *folder.iterdir()) if os.name == "posix" and path.stat().st_mode & 0o077]


def _exchanged(lines: list[bytes]) -> list[bytes]:
    return [*lines[:-2], *lines[:-3:-1]]


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

    def restart(self, how: str = RESTARTS[0]) -> Sequence[str]:
        """Stop the service in one of the ways of `RESTARTS` and start it on its data. Returns the damages of its data
        with which it started all the same, although it must refuse them."""

    def without_secrets(self, text: str) -> str:
        """The text without API keys and other secrets of the target, for cases and reports."""

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
        self._directory = Path()
        self._copies = count(1)
        self._overlays: tuple[str, ...] = ()
        self.replaced_key = API_KEY
        self.at_end = ExitStack()  # of a run

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of the present run."""
        assert self._sandbox is not None, "begin() comes first"
        return self._sandbox

    def begin(self, seed: int, start_ms: int, overlays: Sequence[str], *, disk: bool = False) -> None:
        """Create a new sandbox, in memory or, with `disk`, in a temporary directory."""
        self.end()
        logging.getLogger("leyden").disabled = True  # the harness reports a defect itself
        self._folder = _new_folder() if disk else None
        self._overlays = tuple(overlays)
        data = None if self._folder is None else Path(self._folder.name, "data")
        self._directory = data or Path()
        self._sandbox = Sandbox(
            seed, start_ms, data=data,
            spec=self._spec, overlays=self._overlays, api_key=API_KEY,
        )  # fmt: skip
        self.add_second_project()

    def add_second_project(self) -> None:
        """Add the second project. It is needed again after a reset, because a sandbox of a server has one project."""
        with self.sandbox.world.exclusive():
            self.sandbox.world.service.projects.add(SECOND_PROJECT, SECOND_API_KEY)

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> Response:
        """Send a request through the loopback transport."""
        world = self.sandbox.world
        raw = tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers)
        response = send_request(world.app, method, target, raw, body)
        world.catch_up()
        names_and_values = {name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
        return Response(response.status, names_and_values, response.body)

    def restart(self, how: str = RESTARTS[0]) -> Sequence[str]:
        """Open the directory again, or, after `kill` and `torn`, a copy of it that nothing has closed. With
        `replaced_key` it is opened with an API key that was replaced, if there is one; with `snapshot` it stays open
        and returns to a snapshot of now."""
        data = self._directory
        unnoticed: list[str] = []
        if how == "snapshot":
            return self._return_to_a_snapshot()
        if how == "compact":
            self.sandbox.world.store.compact()
        if how in {"kill", "torn"}:
            data = Path(self._folder.name, f"{next(self._copies)}") if self._folder is not None else data
            shutil.copytree(self._directory, data)
            if how == "torn":
                with (data / JOURNAL_NAME).open("ab") as journal:
                    journal.write(b'["00000000",{"charges":[[1')  # of a commit that was never confirmed
        if how == "damaged" and self._folder is not None:
            killed = Path(self._folder.name, f"{next(self._copies)}")
            shutil.copytree(data, killed)
            unnoticed += [f"{name}, after a kill" for name in DAMAGES if not self._is_refused(killed, name)]
            unnoticed += [] if self._is_refused(data) else ["in use by another sandbox"]
            unnoticed += [f"{path.name}, which others may read" for path in _readable_by_others(data)]
            unnoticed += [] if self._is_recovered(killed) else ["recovered"]
        self.sandbox.close()
        if how == "damaged":
            unnoticed += [name for name in DAMAGES if not self._is_refused(data, name)]
        if how == "twice":
            self._open(data)
            self.sandbox.close()
        self._open(data, self.replaced_key if how == "replaced_key" else API_KEY)
        return unnoticed

    def _return_to_a_snapshot(self) -> list[str]:
        """Take two snapshots, delete one, take another and return to it. Returns what is wrong with their list."""
        first, second = (self._control("POST", "snapshots", {}).json["id"] for _ in range(2))
        self._control("DELETE", f"snapshots/{first}")
        third = self._control("POST", "snapshots", {}).json["id"]
        kept = [row["id"] for row in self._control("GET", "snapshots").json["data"]]
        self._control("POST", "restore", {"snapshot": third})
        for name in (second, third):
            self._control("DELETE", f"snapshots/{name}")
        return [] if kept == [third, second] and first != third else [f"a list of other snapshots: {kept}"]

    def _control(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Response:
        headers = [("apikey", API_KEY), ("content-type", "application/json")]
        return self.send(method, f"/sandbox/v1/{path}", headers, b"" if body is None else orjson.dumps(body))

    @property
    def journal_size(self) -> int:
        """The length in bytes of the journal of the directory."""
        return (self._directory / JOURNAL_NAME).stat().st_size

    def images(self, since: int) -> Iterator[Self]:
        """The states that a kill after each commit since the journal had this length would leave, each in a sandbox of
        its own; the first is that of this length."""
        assert self._folder is not None, "there are images of a directory only"
        journal = (self._directory / JOURNAL_NAME).read_bytes()
        size = since
        while True:
            image = type(self)(self._spec)
            image._overlays = self._overlays
            image._folder = _new_folder()
            data = Path(image._folder.name, "data")
            data.mkdir()
            # Without the mark of the end, which is that of the whole journal.
            (data / JOURNAL_NAME).write_bytes(journal[:size])
            try:
                image._open(data)
                yield image
            finally:
                image.end()
            if size == len(journal):
                return
            size = journal.index(b"\n", size) + 1

    def _open(self, data: Path, api_key: str = API_KEY) -> None:
        self._sandbox = Sandbox(data=data, spec=self._spec, overlays=self._overlays, api_key=api_key)
        self._directory = data
        self._sandbox.world.catch_up()

    def _is_refused(self, data: Path, damage: str | None = None) -> bool:
        """Whether the service refuses the directory, undamaged or with one of the `DAMAGES` to its journal."""
        path = data / JOURNAL_NAME
        whole = path.read_bytes()
        damaged = whole if damage is None else DAMAGES[damage](whole)
        if damaged is None:
            path.unlink()
        elif damage is not None:
            path.write_bytes(damaged)
        try:
            self._start(data).close()
        except StoreError:
            return True
        finally:
            if damage is not None:
                path.write_bytes(whole)
        return False

    def _is_recovered(self, data: Path) -> bool:
        """Whether a journal that is damaged in its middle is opened after `recover`, or has its damage in the compacted
        state, of which no part is of use."""
        path = data / JOURNAL_NAME
        damaged = DAMAGES["with another byte in its middle"](path.read_bytes())
        assert damaged is not None
        path.write_bytes(damaged)
        try:
            recover(data)
        except DamagedJournal as damage:
            return damage.in_compacted
        try:
            self._start(data).close()
        except StoreError:
            return False
        return True

    def _start(self, data: Path) -> Sandbox:
        return Sandbox(data=data, spec=self._spec, overlays=self._overlays, api_key=API_KEY)

    def without_secrets(self, text: str) -> str:
        """The text: a sandbox that lives as long as a run has none."""
        return text

    def new_folder(self) -> str:
        """A directory for what a case hosts beside the sandbox; it is removed at the end of the run."""
        return self.at_end.enter_context(_new_folder())

    def specification(self, overlays: Sequence[str]) -> Mapping[str, Any]:
        """The document of the sandboxes with these overlays."""
        return world_config(seed=0, start_ms=0, spec=self._spec, overlays=overlays, control=False).contract.document

    def journal_hash(self) -> str | None:
        """The hash of the journal of the present sandbox."""
        return self.sandbox.world.journal.hash

    def end(self) -> None:
        """Close the sandbox and what was hosted beside it, and remove the directories."""
        self.at_end.close()
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        logging.getLogger("leyden").disabled = False
