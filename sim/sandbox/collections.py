"""Collections: the charges of a sandbox, the faults in it, its receivers; made by name, walked in order of creation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Any

from leyden.callbacks.faults import FaultSpec, fault_resource
from leyden.callbacks.inboxes import Inbox
from leyden.callbacks.receivers import Receiver
from leyden.callbacks.replies import Reply, Said, plain_reply, reply_resource
from leyden.lab.action_log import as_json
from leyden.lab.traffic import Traffic
from leyden.sandbox.resources import Resource, warn_of_unknown
from leyden.world.event_journal import Entry

if TYPE_CHECKING:
    from pandas import DataFrame

    from leyden.sandbox import Sandbox


_FAULT_FIELDS = tuple(field.name for field in fields_of(FaultSpec) if field.name != "kind")


class Collection:
    """The resources of one kind: `create(...)` with the wire's names, `[id]`, iteration in order of creation.

    `table` is the same as a DataFrame; `[["status", "amount_sat"]]` are columns of it.
    """

    def __init__(self, sandbox: Sandbox, kind: type[Any], create: str, name: str) -> None:
        self._sandbox = sandbox
        self._kind = kind
        self._create = create
        self._name = name

    def create(self, /, **fields: Any) -> Any:
        """POST a new one. Raises `ApiError` with the problem document when the service refuses.

        A name that the service does not know is ignored by it, unless the reading is `strict`; here with a warning.
        """
        warn_of_unknown(self._sandbox, self._create, fields)
        answer = self._sandbox.ask("POST", self._sandbox.path(self._create), fields)
        return self._kind(self._sandbox, answer["data"]["id"])

    @property
    def table(self) -> DataFrame:
        """A fresh DataFrame, a row for each, the oldest first; columns as in `leyden.lab.tables`."""
        return self._sandbox.table(self._name)

    def __getitem__(self, key: str | list[str]) -> Any:
        """The one with this id (`ApiError` when there is none), or these columns of the table."""
        if isinstance(key, list):
            return self.table[key]
        if not isinstance(key, str):
            raise TypeError(f"{key!r} is no id: ids are texts; the first one is list(...)[0], the newest list(...)[-1]")
        handle = self._kind(self._sandbox, key)
        handle.data  # noqa: B018  an unknown id is refused here, by the service
        return handle

    def __iter__(self) -> Iterator[Any]:
        return iter([self._kind(self._sandbox, made) for made in self._ids()])

    def __len__(self) -> int:
        return len(self._ids())

    def _ids(self) -> list[str]:
        world = self._sandbox.world
        with world.exclusive():
            rows = world.store.table(self._name)
            return [row["id"] for row in rows if row["project"] == world.config.project]

    def __repr__(self) -> str:
        ids = self._ids()
        shown = "\n".join(f"  {self._kind(self._sandbox, made)!r}" for made in ids[-5:])
        return f"{len(ids)} in {self._sandbox.path(self._create)}" + (f", the newest:\n{shown}" if ids else "")

    def _repr_html_(self) -> str:
        html: str = self.table.to_html(max_rows=20, border=0, notebook=False)
        return html


class FaultList:
    """What goes wrong on purpose, the oldest first: dicts in the control plane's names."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def add(self, kind: str, *, charge: Resource | str | None = None, **where: Any) -> dict[str, Any]:
        """Let something go wrong: `kind` is one of `leyden.callbacks.faults.KINDS`, `where` as in
        `leyden.callbacks.faults.FaultSpec`.

        faults.add("drop", charge=charge, attempt=2)      the second attempt of this Charge's callback
        faults.add("duplicate", event="charge.expired", count=3)

        Raises `ValueError` for what could never strike, and `TypeError` for other names than those of `FaultSpec`.
        """
        if unknown := sorted(where.keys() - _FAULT_FIELDS):
            raise TypeError(f"{unknown[0]} is nothing that a fault asks for: give some of {', '.join(_FAULT_FIELDS)}")
        sandbox = self._sandbox
        world = sandbox.world
        charge_id = charge.id if isinstance(charge, Resource) else charge
        named = as_json({**where, **({} if charge_id is None else {"charge": charge_id})})
        with (
            sandbox.history.doing(world, "fault", method="add", args=[kind], named=named),
            world.exclusive(),
        ):
            return fault_resource(world.faults.add(FaultSpec(kind, charge=charge_id, **where)))

    def clear(self, fault_id: str | None = None) -> int:
        """Let this one (by its id), or every one, strike no more; the number taken away."""
        world = self._sandbox.world
        args = [] if fault_id is None else [fault_id]
        with (
            self._sandbox.history.doing(world, "fault", method="clear", args=args, named={}),
            world.exclusive(),
        ):
            return world.faults.clear(fault_id)

    @property
    def hits(self) -> list[Entry]:
        """The journal's entries of every time that one struck."""
        return self._sandbox.world.journal.entries(kind="fault_hit")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([fault_resource(row) for row in self._sandbox.world.faults.rows])

    def __len__(self) -> int:
        return len(self._sandbox.world.faults.rows)

    def __repr__(self) -> str:
        lines = [f"  {row['kind']}: {row['hits']} of {row['count'] or 'any number of'} hits" for row in self]
        return f"{len(self)} faults" + (":\n" + "\n".join(lines) if lines else ', add one: faults.add("drop")')


class Crowd(Traffic):
    """A sandbox's stream of visitors."""

    def __init__(self, sandbox: Sandbox, traffic_id: str) -> None:
        super().__init__(sandbox.world, traffic_id)
        self._sandbox = sandbox

    def stop(self) -> Traffic:
        """As `Traffic.stop`."""
        with self._sandbox.history.doing(self._sandbox.world, "stop", traffic=self.id):
            return super().stop()


class Shop(Receiver):
    """A sandbox's receiver: what it is told to do is remembered, so that the sandbox can be made anew."""

    def __init__(self, sandbox: Sandbox, name: str) -> None:
        found = sandbox.world.receivers.receiver(name)
        super().__init__(found.name, lambda: sandbox.world.receivers)
        self._sandbox = sandbox

    @property
    def inbox(self) -> Inbox:
        """Everything received so far, oldest first."""
        with self._sandbox.world.exclusive():
            return super().inbox

    def answers(self, script: Sequence[Said]) -> Receiver:
        """As `Receiver.answers`."""
        script = list(script)
        return self._doing("answers", [[_said(one) for one in script]], {}, lambda: super(Shop, self).answers(script))

    def always(self, said: Said) -> Receiver:
        """As `Receiver.always`."""
        return self._doing("always", [_said(said)], {}, lambda: super(Shop, self).always(said))

    def when(
        self,
        said: Said,
        *,
        event: str | None = None,
        charge: str | None = None,
        attempt: int | None = None,
        count: int | None = 1,
    ) -> Receiver:
        """As `Receiver.when`."""
        named: dict[str, Any] = {"event": event, "charge": charge, "attempt": attempt, "count": count}
        return self._doing("when", [_said(said)], named, lambda: super(Shop, self).when(said, **named))

    def reset_script(self) -> Receiver:
        """As `Receiver.reset_script`."""
        return self._doing("reset_script", [], {}, super().reset_script)

    def use_secret(self, secret: str | None) -> Receiver:
        """As `Receiver.use_secret`."""
        return self._doing("use_secret", [secret], {}, lambda: super(Shop, self).use_secret(secret))

    def _doing(self, method: str, args: list[Any], named: dict[str, Any], do: Callable[[], Receiver]) -> Receiver:
        sandbox = self._sandbox
        with sandbox.history.doing(sandbox.world, "receiver", name=self.name, method=method, args=args, named=named):
            return do()


def _said(said: Said) -> Any:
    return reply_resource(plain_reply(said)) if isinstance(said, Reply) else said
