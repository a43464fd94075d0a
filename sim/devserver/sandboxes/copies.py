"""Copies of a sandbox on a server: snapshots and restores, forks, and the file that `Sandbox.save` writes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import orjson

from leyden.devserver.control.pages import Page, page
from leyden.devserver.sandboxes.factory import SandboxFactory
from leyden.devserver.sandboxes.operations import SandboxOperations, described
from leyden.devserver.sandboxes.registry import ServedSandbox, StoredSnapshot
from leyden.json_files import VersionWarning
from leyden.lab.differences import Difference, differences
from leyden.lab.table_rows import TIME
from leyden.server.contract.bind import handles
from leyden.server.errors import Conflict, FieldError, NotFound, SemanticConflict
from leyden.server.http.request import Request
from leyden.server.timestamps import to_iso
from leyden.server.version import VERSION
from leyden.world.snapshots.snapshots import dump_world, reseed_world
from leyden.world.world import World

MAX_SNAPSHOTS = 20  # of one sandbox
_NO_SNAPSHOT = "this sandbox has no snapshot with this id: list its snapshots"
MAX_DIFFERENCES = 1_000  # that a response lists


class CopyOperations:
    """Handlers for one server."""

    def __init__(self, operations: SandboxOperations, factory: SandboxFactory) -> None:
        self._operations = operations
        self._factory = factory

    @handles(raises=(NotFound, Conflict), needs=("path.id",))
    def create_snapshot(self, call: Request) -> dict[str, Any]:
        """Keep the present state of a sandbox."""
        sandbox = self._operations.find(call)
        if len(sandbox.snapshots) >= MAX_SNAPSHOTS:
            raise Conflict(f"this sandbox has {MAX_SNAPSHOTS} snapshots, and no more: delete one, or fork the sandbox")
        world, state = sandbox.world, _saved(sandbox)
        number = sandbox.snapshot_count = sandbox.snapshot_count + 1
        snapshot = StoredSnapshot(
            doc_id=number,
            id=f"snapshot-{number}",
            name=call.body.get("name"),
            at_ms=state["clock"]["now"],
            rate=world.clock.rate,
            journal_hash=world.journal.hash,
            content=orjson.dumps(state),
        )
        sandbox.snapshots[snapshot.id] = snapshot
        return _shown(snapshot)

    @handles(raises=(NotFound,), needs=("path.id", "query.limit"))
    def list_snapshots(self, call: Request) -> Page:
        """One page of the snapshots of a sandbox, the newest first."""
        newest_first = [*self._operations.find(call).snapshots.values()][::-1]
        return page(
            call,
            lambda after, limit: [one for one in newest_first if after is None or one.doc_id < after][:limit],
            _shown,
        )

    @handles(raises=(NotFound,), needs=("path.id", "path.snapshot"))
    def delete_snapshot(self, call: Request) -> dict[str, Any]:
        """Forget a snapshot."""
        sandbox = self._operations.find(call)
        snapshot = sandbox.snapshots.get(call.path["snapshot"])
        if snapshot is None:
            raise NotFound(_NO_SNAPSHOT)
        del sandbox.snapshots[snapshot.id]
        return _shown(snapshot)

    @handles(raises=(NotFound, SemanticConflict, Conflict), needs=("path.id", "body.snapshot"))
    def restore_sandbox(self, call: Request) -> dict[str, Any]:
        """Return a sandbox to a snapshot."""
        sandbox = self._operations.find(call)
        snapshot = _named(sandbox, call)
        former = sandbox.world
        world = self._factory.copy(
            orjson.loads(snapshot.content),
            keys=former.service.projects.key_rows(),
            api_key=former.config.api_key,
            rate=snapshot.rate,
            url=sandbox.url,
            label=former.label,
            sends=former.external_transport is not None,
        )
        self._operations.replace_world(sandbox, world)
        return self._operations.show(sandbox)

    @handles(raises=(NotFound, SemanticConflict, Conflict), needs=("path.id",))
    def fork_sandbox(self, call: Request) -> dict[str, Any]:
        """A new sandbox in the state of another one, or of one of its snapshots."""
        sandbox = self._operations.find(call)
        if call.body.get("snapshot") is None:
            state, rate = _saved(sandbox), sandbox.world.clock.rate
        else:
            snapshot = _named(sandbox, call)
            state, rate = orjson.loads(snapshot.content), snapshot.rate
        return self._add(state, rate, call.body, reseed=call.body.get("reseed"))

    @handles(raises=(NotFound, SemanticConflict, Conflict), needs=("path.id",))
    def diff_sandbox(self, call: Request) -> dict[str, Any]:
        """The fields that differ between a sandbox and one of its snapshots, or another sandbox."""
        sandbox, [given] = self._operations.find(call), call.body  # exactly one: the schema requires it
        if given == "snapshot":
            state = orjson.loads(_named(sandbox, call).content)
        else:
            other = self._operations.of_id(call.body["sandbox"])
            if other is None:
                detail = "this server has no sandbox with this id: list the sandboxes"
                raise SemanticConflict(detail, field_errors=[FieldError("/sandbox", detail)])
            state = _saved(other)
        _saved(sandbox)  # raises between two states
        # With the same URL: otherwise each LNURL would differ.
        there = self._factory.copy(state, keys=None, api_key="diff", rate=0, url=sandbox.url, label=None)
        found = list(differences(sandbox.world, there))
        return {"count": len(found), "differences": [_difference(one) for one in found[:MAX_DIFFERENCES]]}

    @handles(raises=(NotFound, Conflict), needs=("path.id",))
    def export_sandbox(self, call: Request) -> dict[str, Any]:
        """The file that `Sandbox.load` reads."""
        return _saved(self._operations.find(call))

    @handles(raises=(SemanticConflict, Conflict))
    def import_sandbox(self, call: Request) -> dict[str, Any]:
        """A new sandbox in the state of a file."""
        order = {name: call.query[name] for name in ("name", "ttl", "egress") if call.query.get(name) is not None}
        return self._add(call.raw_body, 0.0, order)

    def _add(
        self, state: Mapping[str, Any], rate: float, order: Mapping[str, Any], *, reseed: int | None = None
    ) -> dict[str, Any]:
        def make(key: str, url: str) -> World:
            with warnings.catch_warnings():  # a state of another version is read as well as it can be
                warnings.simplefilter("ignore", VersionWarning)
                world = self._factory.copy(
                    state,
                    keys=None,
                    api_key=key,
                    rate=0,
                    url=url,
                    label=order.get("name"),
                    sends=order.get("egress") == "server",
                )
            if reseed is not None:
                reseed_world(world, reseed)
            if rate:
                world.move(lambda clock: clock.set_rate(rate))
            return world

        return self._operations.add(order, make)


def _saved(sandbox: ServedSandbox) -> dict[str, Any]:
    """The state of a sandbox as `Sandbox.save` writes it, without an action log: a server records none."""
    world = sandbox.world
    with world.exclusive():
        """What is due on a live clock runs first."""
    if world.running_moves or world.transport.is_waiting:
        raise Conflict(
            f"{described(sandbox)} is between two states: time is moved in it, or a callback is in flight to the"
            " network; wait until that has ended, then copy the sandbox"
        )
    return {"leyden": VERSION, **dump_world(world)}


def _named(sandbox: ServedSandbox, call: Request) -> StoredSnapshot:
    """The snapshot that the body names. Raises `SemanticConflict`."""
    snapshot = sandbox.snapshots.get(call.body["snapshot"])
    if snapshot is None:
        raise SemanticConflict(_NO_SNAPSHOT, field_errors=[FieldError("/snapshot", _NO_SNAPSHOT)])
    return snapshot


def _difference(one: Difference) -> dict[str, Any]:
    def shown(value: Any) -> Any:
        return to_iso(value) if one.kind == TIME and value is not None else value

    return {"table": one.table, "id": one.id, "field": one.field, "here": shown(one.here), "there": shown(one.there)}


def _shown(snapshot: StoredSnapshot) -> dict[str, Any]:
    return {
        "id": snapshot.id,
        "name": snapshot.name,
        "now": to_iso(snapshot.at_ms),
        "journalHash": snapshot.journal_hash,
        "bytes": len(snapshot.content),
    }
