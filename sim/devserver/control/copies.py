"""The control plane's operations for copies of its sandbox: snapshots and restores, forks, differences, the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from leyden.devserver.control.pages import Page, page
from leyden.devserver.control.sandbox_state import over_http, sandbox_state
from leyden.errors import ForkError
from leyden.server.contract.bind import handles
from leyden.server.errors import Conflict, FieldError, NotFound, SemanticConflict
from leyden.server.http.request import EncodedJson, Request
from leyden.server.store.tables.former_content import FormerContent
from leyden.server.timestamps import to_iso
from leyden.server.version import VERSION
from leyden.world.moves.move_guard import refused_by_move
from leyden.world.persistence.encoded_state import BATCH, free
from leyden.world.ports import Slices
from leyden.world.snapshots.frozen_state import FrozenState
from leyden.world.snapshots.snapshots import CONTRADICTIONS, freeze_world, prepared, restore_world, return_to, savable
from leyden.world.stored_snapshots import MAX_SNAPSHOTS, StoredSnapshot
from leyden.world.world import World

if TYPE_CHECKING:
    from leyden.lab.differences import Difference

# Returns a state for `restore_world`. It is called in the thread that restores it.
ReadState = Callable[[], Mapping[str, Any]]

MAX_DIFFERENCES = 1_000  # that a response lists
_NO_SNAPSHOT = "this sandbox has no snapshot with this id: list its snapshots"


class CopyControl:
    """Handlers for one world. A successful request leaves no entry in the event journal: otherwise a snapshot would
    change what it keeps, and the run after a restore would differ from the run after the snapshot."""

    def __init__(self, world: World) -> None:
        self._world = world

    @handles(raises=(Conflict,), recorded=False)
    async def create_snapshot(self, call: Request) -> dict[str, Any]:
        """Keep the present state."""
        world, slices = self._world, self._world.slices()
        async with slices.alone:
            await self._hash_journal(slices)
            _check_room(world)
            with world.lock:
                state, rate = frozen_state(world, stays_here=True), world.clock.rate
            content = await state.encoded(slices)
        _check_room(world)  # another request may have made one meanwhile
        now_ms, journal_hash = state.clock["now"], state.journal.hash
        return _shown(world.snapshots.add(call.body.get("name"), now_ms, rate, journal_hash, content))

    @handles(needs=("query.limit",), recorded=False)
    async def list_snapshots(self, call: Request) -> Page:
        """One page of the snapshots, the newest first."""
        snapshots, name = self._world.snapshots, call.query.get("name")
        return page(call, "snapshot", lambda after, limit: snapshots.page(name, after, limit), _shown)

    @handles(raises=(NotFound,), needs=("path.snapshot",), recorded=False)
    async def delete_snapshot(self, call: Request) -> dict[str, Any]:
        """Forget a snapshot."""
        snapshot = self._world.snapshots.delete(call.path["snapshot"])
        if snapshot is None:
            raise NotFound(_NO_SNAPSHOT)
        return _shown(snapshot)

    @handles(raises=(SemanticConflict,), needs=("key", "body.snapshot"), recorded=False)
    async def restore_sandbox(self, call: Request) -> dict[str, Any]:
        """Return to a snapshot."""
        world, snapshot = self._world, self._named(call)
        state = await world.run_apart(prepared(world, snapshot.state))
        former = FormerContent(world.store.tables.values())
        with world.lock:
            return_to(world, state, snapshot.rate)
            world.snapshots.returned_to(snapshot)
            shown = sandbox_state(world, call.project)
        slices = world.slices()
        for _ in former.free():
            if slices.is_over():
                await slices.pause()
        return shown

    @handles(raises=(SemanticConflict, Conflict), recorded=False)
    async def fork_sandbox(self, call: Request) -> Mapping[str, Any]:
        """A new sandbox on the same server, in this state or in that of a snapshot."""
        world = self._world
        if world.server is None or not world.server.runs_here():
            raise SemanticConflict(
                "a request in process reaches no server that would serve the fork: use Sandbox.fork() in Python, or"
                f" {over_http(world)}"
            )
        state, rate = self.state_to_fork(call)
        return await world.server.fork(world, state, rate, call.body)

    @handles(raises=(SemanticConflict, Conflict), recorded=False)
    async def diff_sandbox(self, call: Request) -> dict[str, Any]:
        """The fields that differ between the present state and a snapshot."""
        return await self.differences_from(self._named(call).state)

    @handles(raises=(Conflict,), recorded=False)
    async def export_sandbox(self, call: Request) -> EncodedJson:
        """The file that `Sandbox.load` reads."""
        slices = self._world.slices()
        async with slices.alone:
            await self._hash_journal(slices)
            state = frozen_state(self._world)
            if self._world.contradictions:
                await self._world.run_apart(partial(_check_savable, self._world, state.detach()))
            return EncodedJson(state.outline(), await state.encoded(slices))

    # Used by the operations of the server, too

    def state_to_fork(self, call: Request) -> tuple[ReadState, float]:
        """The state from which the body forks, and the rate of its clock."""
        if call.body.get("snapshot") is None:
            return frozen_state(self._world, stays_here=True).detach().restorable, self._world.clock.rate
        snapshot = self._named(call)
        return snapshot.state, snapshot.rate

    async def differences_from(self, state: ReadState) -> dict[str, Any]:
        """The fields in which the world differs from another state: how many, and the first of them. `state` is called
        in the thread that compares."""
        here, url = frozen_state(self._world).detach(), self._world.public_url

        def compare() -> dict[str, Any]:
            # Imported here: most servers compare no sandbox.
            from leyden.lab.differences import differences

            # With the same URL: otherwise each LNURL would differ.
            worlds = []
            for label, read in (("here", here.restorable), ("there", state)):
                worlds.append(restore_world(values := read(), label=label, public_url=url, is_own=True))
                free(values)
            ours, theirs = worlds
            found = differences(ours, theirs)
            first = list(islice(found, MAX_DIFFERENCES))
            answer = {"count": len(first) + sum(1 for _ in found), "differences": list(_resources(first))}
            for copy in (ours, theirs):
                copy.discard()
            return answer

        return await self._world.run_apart(compare)

    # Inside

    async def _hash_journal(self, slices: Slices) -> None:
        while not self._world.journal.extend_hash(BATCH):
            if slices.is_over():
                await slices.pause()

    def _named(self, call: Request) -> StoredSnapshot:
        """The snapshot that the body names. Raises `SemanticConflict`."""
        snapshot = self._world.snapshots.get(call.body["snapshot"])
        if snapshot is None:
            raise SemanticConflict(_NO_SNAPSHOT, field_errors=[FieldError("/snapshot", _NO_SNAPSHOT)])
        return snapshot


def frozen_state(world: World, *, stays_here: bool = False) -> FrozenState:
    """The state of a world as `Sandbox.save` writes it, as it is at this moment, without an action log: a server
    records none. One that `stays_here`, in this process, is not checked when it is restored. Raises `Conflict` between
    two states."""
    with world.lock:
        with world.exclusive():
            """Events that are due on a live clock run first."""
        if world.running_moves or world.is_waiting or world.transport.is_waiting or world.guard.refuses:
            raise refused_by_move(
                "this sandbox is between two states: time is moved in it, or a callback is in flight to the network;"
                " wait until that has ended, then copy the sandbox"
            )
        more = {CONTRADICTIONS: world.contradictions} if stays_here and world.contradictions else {}
        return freeze_world(world, leyden=VERSION, **more)


def _check_savable(world: World, state: FrozenState) -> None:
    """Raise `Conflict` for a state whose file could not be loaded."""
    try:
        savable(world, state.values())
    except ForkError as error:
        raise Conflict(str(error)) from None


def _check_room(world: World) -> None:
    if world.snapshots.is_full:
        raise Conflict(f"this sandbox has {MAX_SNAPSHOTS} snapshots, and no more: delete one, or fork the sandbox")


def _resources(found: Iterable[Difference]) -> Iterable[dict[str, Any]]:
    from leyden.lab.table_rows import TIME

    for one in found:
        values = [to_iso(value) if one.kind == TIME and value is not None else value for value in (one.here, one.there)]
        yield {"table": one.table, "id": one.id, "field": one.field, "here": values[0], "there": values[1]}


def _shown(snapshot: StoredSnapshot) -> dict[str, Any]:
    return {
        "id": snapshot.id,
        "name": snapshot.name,
        "now": to_iso(snapshot.at_ms),
        "journalHash": snapshot.journal_hash,
        "bytes": sum(map(len, snapshot.content)),
    }
