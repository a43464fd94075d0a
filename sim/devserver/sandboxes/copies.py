"""Copies of the sandboxes of a server: snapshots and restores, forks, and the file that `Sandbox.save` writes.

`leyden.devserver.control.copies` does the operations on one sandbox alone, as with the sandbox's own key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.devserver.control.copies import CopyControl, ReadState, frozen_state
from leyden.devserver.control.pages import Page
from leyden.devserver.sandboxes.factory import SandboxFactory
from leyden.devserver.sandboxes.operations import SandboxOperations
from leyden.server.contract.bind import handles
from leyden.server.errors import Conflict, FieldError, NotFound, SemanticConflict
from leyden.server.http.request import EncodedJson, Request
from leyden.world.persistence.encoded_state import free
from leyden.world.snapshots.snapshots import reseed_world
from leyden.world.world import World


class CopyOperations:
    """Handlers for one server."""

    def __init__(self, operations: SandboxOperations, factory: SandboxFactory) -> None:
        self._operations = operations
        self._factory = factory

    @handles(raises=(NotFound, Conflict), needs=("path.id",))
    async def create_snapshot(self, call: Request) -> dict[str, Any]:
        """Keep the present state of a sandbox."""
        return await self._control(call).create_snapshot(call)

    @handles(raises=(NotFound,), needs=("path.id", "query.limit"))
    async def list_snapshots(self, call: Request) -> Page:
        """One page of the snapshots of a sandbox, the newest first."""
        return await self._control(call).list_snapshots(call)

    @handles(raises=(NotFound,), needs=("path.id", "path.snapshot"))
    async def delete_snapshot(self, call: Request) -> dict[str, Any]:
        """Forget a snapshot."""
        return await self._control(call).delete_snapshot(call)

    @handles(raises=(NotFound, SemanticConflict), needs=("path.id", "body.snapshot"))
    async def restore_sandbox(self, call: Request) -> dict[str, Any]:
        """Return a sandbox to a snapshot."""
        sandbox = self._operations.find(call)
        await CopyControl(sandbox.world).restore_sandbox(call)
        self._operations.find(call)  # it may have been deleted meanwhile
        self._operations.restored(sandbox)
        return self._operations.show(sandbox)

    @handles(raises=(NotFound, SemanticConflict, Conflict), needs=("path.id",))
    async def fork_sandbox(self, call: Request) -> dict[str, Any]:
        """A new sandbox in the state of another one, or of one of its snapshots."""
        world = self._operations.find(call).world
        state, rate = CopyControl(world).state_to_fork(call)
        return await self.fork(world, state, rate, call.body)

    @handles(raises=(NotFound, SemanticConflict, Conflict), needs=("path.id",))
    async def diff_sandbox(self, call: Request) -> dict[str, Any]:
        """The fields that differ between a sandbox and one of its snapshots, or another sandbox."""
        control, [given] = self._control(call), call.body  # exactly one: the schema requires it
        if given == "snapshot":
            return await control.diff_sandbox(call)
        other = self._operations.of_id(call.body["sandbox"])
        if other is None:
            detail = "this server has no sandbox with this id: list the sandboxes"
            raise SemanticConflict(detail, field_errors=[FieldError("/sandbox", detail)])
        return await control.differences_from(frozen_state(other.world).detach().restorable)

    @handles(raises=(NotFound, Conflict), needs=("path.id",))
    async def export_sandbox(self, call: Request) -> EncodedJson:
        """The file that `Sandbox.load` reads."""
        return await self._control(call).export_sandbox(call)

    @handles(raises=(SemanticConflict, Conflict))
    async def import_sandbox(self, call: Request) -> dict[str, Any]:
        """A new sandbox in the state of a file."""
        fields = {name: call.query[name] for name in ("name", "ttl", "egress") if call.query.get(name) is not None}
        if fields.get("ttl", "").replace(".", "").isdigit():  # a number in the bodies of the other operations
            fields["ttl"] = float(fields["ttl"])
        return await self._add(lambda: call.raw_body, 0.0, fields)

    # Used by the sandboxes' own control plane, too

    async def fork(self, world: World, state: ReadState, rate: float, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Serve a new sandbox in a state of `world`. It has the time to live of that one unless `fields` has another.
        Raises `SemanticConflict` and `Conflict`."""
        fields = {name: value for name, value in fields.items() if value is not None}
        ttl_s = self._operations.ttl_s(world)
        if ttl_s is not None:
            fields.setdefault("ttl", ttl_s)
        return await self._add(state, rate, fields, reseed=fields.get("reseed"), is_own=True)

    # Inside

    def _control(self, call: Request) -> CopyControl:
        return CopyControl(self._operations.find(call).world)

    async def _add(
        self,
        state: ReadState,
        rate: float,
        fields: Mapping[str, Any],
        *,
        reseed: int | None = None,
        is_own: bool = False,
    ) -> dict[str, Any]:
        def make(key: str, url: str) -> World:
            world = self._factory.copy(
                values := state(),
                api_key=key,
                url=url,
                label=fields.get("name"),
                sends=fields.get("egress") == "server",
                is_own=is_own,
            )
            free(values)
            if reseed is not None:
                reseed_world(world, reseed)
            return world

        def start_clock(world: World) -> None:
            if rate:
                world.move(lambda clock: clock.set_rate(rate))

        return await self._operations.add_built_apart(fields, make, start_clock)
