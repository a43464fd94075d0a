"""Collections of a sandbox: its charges, its injected faults, and the recorded form of receivers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields as fields_of
from datetime import timedelta
from functools import wraps
from keyword import iskeyword
from numbers import Integral, Real
from types import FunctionType, MethodType, NoneType
from typing import TYPE_CHECKING, Any, cast

from leyden.arguments import (
    checked_list,
    checked_text,
    hint,
    receiver_name,
    unknown_name,
    with_hints,
)
from leyden.callbacks.faults.hits import APPLIED, UNMET
from leyden.callbacks.faults.kinds import FaultSpec, fault_resource
from leyden.callbacks.inboxes import Inbox
from leyden.callbacks.receiver import Receiver
from leyden.callbacks.replies import Reply, reply_resource, stored_reply
from leyden.errors import ArgumentError
from leyden.extras import is_installed
from leyden.files.json_files import MAX_DEPTH
from leyden.lab.actions.action_log import as_json
from leyden.lab.table_rows import TABLES
from leyden.repr_tables import counted, html_resources
from leyden.sandbox.resources import KeptList, Resource, warn_about_ignored
from leyden.sandbox.session import Session
from leyden.sandbox.views import table
from leyden.server.printable import quoted
from leyden.server.spelling import closest
from leyden.world.event_journal import Entry
from leyden.world.world import World

if TYPE_CHECKING:
    from pandas import DataFrame

    from leyden.lightning.network.network import Network
    from leyden.server.contract.types import Body

_REMOVED = {"charges": "charges", "static_charges": "staticCharges"}  # the names of their counts
_FAULT_FIELDS = tuple(field.name for field in fields_of(FaultSpec) if field.name != "kind")


class _create:
    """The method `create`. On a collection, its parameters and its help text come from the specification."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function

    def __get__(self, collection: Collection | None, owner: type[Collection]) -> Callable[..., Any]:
        return self._function if collection is None else collection._creator(self._function)


def completed_by_value(get: Callable[[Any], Collection]) -> Callable[[Any], Collection]:
    """The getter of a property without its annotation at runtime. Completion in a notebook takes the annotation of a
    property for its value; without one it looks at the value, whose `create` has the fields of the specification."""
    get.__annotations__ = {}
    return get


class Collection:
    """All resources of one kind: `create(...)` with the API's field names, `[id]`, iteration in order of creation.

    `table` is the same as a DataFrame; `[["status", "amount_sat"]]` selects columns of it.
    """

    def __init__(self, session: Session, kind: type[Any], create: str, name: str) -> None:
        self._session = session
        self._kind = kind
        self._create = create
        self._name = name
        self._made: tuple[Body | None, Callable[..., Any]] | None = None

    def _creator(self, function: FunctionType) -> Callable[..., Any]:
        """`create` with the fields of the specification in use as parameters."""
        if self._session.is_closed:
            return MethodType(function, self)
        body = self._session.world.config.contract.operation(self._create).body
        if self._made is None or self._made[0] is not body:
            create = FunctionType(function.__code__, function.__globals__, "create")
            create.__doc__ = f"{inspect.getdoc(function)}\n\n{_fields_text(body)}"
            create.__signature__ = _signature(body)  # type: ignore[attr-defined]
            create.__qualname__, create.__module__ = function.__qualname__, function.__module__
            self._made = body, MethodType(create, self)
        return self._made[1]

    @_create  # type: ignore[arg-type]
    def create(self, /, **fields: Any) -> Any:
        """POST a new resource. Raises `ApiError` with the problem document when the service refuses.

        The service ignores an unknown field, unless the overlay `strict` is in use; here it also causes a warning.
        `help(sb.charges.create)`, and completion after `sb.charges.create(`, show the fields of the specification.
        """
        warn_about_ignored(self._session, self._create, fields)
        answer = self._session.ask("POST", self._session.path(self._create), fields)
        return self._kind(self._session, answer["data"]["id"])

    @property
    def table(self) -> DataFrame:
        """A new DataFrame, one row per resource, oldest first; columns as in `leyden.lab.tables`. Needs pandas."""
        return table(self._session.world, self._name, f"sb.{self._name}.table")

    def __getitem__(self, key: str | list[str]) -> Any:
        """The resource with this id, or these columns of `table`. Raises `ApiError` 404 for an unknown id."""
        if isinstance(key, list):
            found = self.table
            for name in key:
                if not isinstance(name, str) or name not in found.columns:
                    raise ArgumentError(
                        f"{quoted(name)} is no column of sb.{self._name}.table: {hint(name, found.columns)}"
                    )
            return found[key]
        if not isinstance(key, str):
            raise ArgumentError(
                f"{quoted(key)} is not an id: ids are texts; the first one is list(...)[0], the newest list(...)[-1]"
            )
        if (column := self._column(key)) is not None:
            what = "column" if column == key else "field"
            raise ArgumentError(f"{quoted(key)} is a {what}, not an id: use sb.{self._name}.table[{quoted(column)}]")
        resource = self._kind(self._session, key)
        resource.data  # noqa: B018  raises for an unknown id
        return resource

    def _column(self, name: str) -> str | None:
        """The column of `table` with this name, or with this field of the API; None when there is none."""
        columns = [column for column, _ in TABLES[self._name].columns]
        snake = re.sub(r"(?=[A-Z])", "_", name).lower()
        field = snake.removesuffix("_amount") + "_msat"  # minAmount, as amount, is an amount in msat
        return next((column for column in (name, snake, field) if column in columns), None)

    if not TYPE_CHECKING:  # a type checker reports these names itself

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            column = self._column(name)
            if column is not None:
                advice = f"use sb.{self._name}.table[{column!r}]"
            else:
                near = closest(name, [each for each in dir(Collection) if not each.startswith("_")])
                advice = f"did you mean {near}?" if near else "it has create, table, [id], len and iteration"
            raise AttributeError(f"sb.{self._name} has no attribute {name}: {advice}", name=name)

    def __iter__(self) -> Iterator[Any]:
        return iter([self._kind(self._session, each) for each in self._ids()])

    def __len__(self) -> int:
        return len(self._ids())

    def _ids(self) -> list[str]:
        world = self._session.world
        with world.exclusive():
            rows = world.store.table(self._name)
            return [row["id"] for row in rows if row["project"] == world.config.project]

    def __repr__(self) -> str:
        if self._session.is_closed:
            return f"sb.{self._name} of a closed sandbox"
        ids, world = self._ids(), self._session.world
        with world.exclusive():
            without = world.removed.without(_REMOVED[self._name])
        shown = "\n".join(f"  {self._kind(self._session, each)!r}" for each in ids[-5:])
        path = world.config.contract.path(self._create, "no path")
        return ", ".join(filter(None, [f"{len(ids)} in {path}", without, f"the newest:\n{shown}" if ids else ""]))

    def _repr_html_(self) -> str | None:
        if not is_installed("pandas"):
            return None  # a notebook shows the repr then
        html: str = self.table.to_html(max_rows=20, border=0, notebook=False)
        return html


class FaultList:
    """The injected faults, oldest first: dicts with the field names of the control API."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, kind: str, *, charge: Resource | str | None = None, **where: Any) -> dict[str, Any]:
        """Inject a fault: `kind` is one of `KINDS`, `where` fields of `FaultSpec` in `leyden.callbacks.faults.kinds`.

        faults.add("drop", charge=charge, attempt=2)      the second attempt of this Charge's callback
        faults.add("duplicate", event="charge.expired", count=3)

        Raises `ValueError` for a fault that could never apply, `TypeError` for a field that `FaultSpec` does not have.
        """
        if unknown := sorted(where.keys() - _FAULT_FIELDS):
            raise unknown_name("a fault", unknown[0], _FAULT_FIELDS, "field")
        world = self._session.world
        charge_id = _charge_id(world, charge)
        for name, value in where.items():
            if not isinstance(value, (str, Real, timedelta, Sequence, NoneType)):
                raise ArgumentError(f"{name}={quoted(value, 60)} is no text, number or list: give one, or leave it out")
        named = as_json({**where, **({} if charge_id is None else {"charge": charge_id})})
        with self._session.record("fault", method="add", args=[kind], named=named), world.exclusive():
            return fault_resource(world.faults.add(FaultSpec(kind, charge=charge_id, **where)))

    def clear(self, fault_id: str | None = None) -> int:
        """Remove the fault with this id, or all faults; return the number of removed faults. What they have begun goes
        on: an attempt that is held and a copy are sent at their times."""
        world = self._session.world
        args = [] if fault_id is None else [checked_text("fault_id", fault_id)]
        with self._session.record("fault", method="clear", args=args, named={}), world.exclusive():
            return world.faults.clear(fault_id)

    @property
    def hits(self) -> list[Entry]:
        """The journal entries of all faults that applied, since this process opened the sandbox: the field `hits` of a
        fault also counts those before, where `data` was opened again. The list then says that it has no earlier."""
        journal = self._session.world.journal
        blocked = {_attempt_of(entry) for entry in journal.entries(kind=UNMET)}
        found = [entry for entry in journal.entries(kind=APPLIED) if _attempt_of(entry) not in blocked]
        return KeptList(found, journal.lost())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([fault_resource(row) for row in self._session.world.faults.rows])

    def __len__(self) -> int:
        return len(self._session.world.faults.rows)

    def __repr__(self) -> str:
        if self._session.is_closed:
            return "sb.faults of a closed sandbox"
        lines = [
            f"  {row['kind']}: {row['hits']} of {row['count'] or 'any number of'} hits"
            f"{row['note'] and ': '}{row['note']}"
            for row in self
        ]
        return counted(len(self), "fault") + (":\n" + "\n".join(lines) if lines else ', add one: faults.add("drop")')

    def _repr_html_(self) -> str:
        return html_resources([] if self._session.is_closed else self, caption=repr(self).partition("\n")[0])


def _recorded(method: Callable[..., Receiver]) -> Any:
    """A method of a receiver that is recorded in the action log of the sandbox."""
    signature = inspect.signature(method)

    @with_hints
    @wraps(method)
    def recorded(self: RecordedReceiver, *args: Any, **named: Any) -> Receiver:
        if "charge" in named:
            named["charge"] = _charge_id(self._session.world, named["charge"])
        given = signature.bind(self, *args, **named)
        given.arguments.update({key: _listed(given.arguments[key]) for key in given.arguments.keys() & {"script"}})
        facts_named = {key: _as_json(value) for key, value in given.kwargs.items()}
        facts = {"method": method.__name__, "args": _as_json(given.args[1:]), "named": facts_named}
        with self._session.record("receiver", name=self.name, **facts):
            return method(*given.args, **given.kwargs)

    return recorded


def _attempt_of(entry: Entry) -> tuple[str, Any, Any]:
    """The fault, the delivery and the attempt that an entry is about; the last two are None for a request."""
    return entry.subject, entry.facts.get("delivery"), entry.facts.get("attempt")


class RecordedReceiver(Receiver):
    """A receiver of a sandbox, whose configuration is recorded in the action log."""

    def __init__(self, session: Session, name: str) -> None:
        found = session.world.receivers.receiver(receiver_name(name))
        super().__init__(found.name, lambda: session.world.receivers)
        self._session = session

    @property
    def inbox(self) -> Inbox:
        """All requests received so far, oldest first."""
        with self._session.world.exclusive():
            return super().inbox

    answers = _recorded(Receiver.answers)
    always = _recorded(Receiver.always)
    when = _recorded(Receiver.when)
    behaves = _recorded(Receiver.behaves)
    reset_script = _recorded(Receiver.reset_script)
    use_secret = _recorded(Receiver.use_secret)


def recorded_network(session: Session) -> Network:
    """The Lightning network of a sandbox, whose changes are recorded. Raises `ValueError` when payments are direct."""
    if session.world.engine is None:
        raise ArgumentError("payments are direct here: create the sandbox with network='scale-free:400'")
    from leyden.sandbox.networks import SandboxNetwork

    return SandboxNetwork(session)


def _signature(body: Body | None) -> inspect.Signature:
    """The fields of a body as parameters: those that are required first; `...` stands for a field that is left out."""
    schema: Mapping[str, Any] = {} if body is None else body.rule.schema
    required, declared = schema.get("required", ()), schema.get("properties", {})
    names = sorted(() if body is None else body.properties, key=lambda name: name not in required)
    kind, empty = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    fields = [
        inspect.Parameter(name, kind, default=empty if name in required else declared.get(name, {}).get("default", ...))
        for name in names
        if name.isidentifier() and not iskeyword(name)
    ]
    first, rest = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY), inspect.Parameter.VAR_KEYWORD
    return inspect.Signature([first, *fields, inspect.Parameter("fields", rest)])


def _fields_text(body: Body | None) -> str:
    """The fields of a body, each with the first sentence of its description."""
    schema: Mapping[str, Any] = {} if body is None else body.rule.schema
    lines = ["Fields:"]
    for name in () if body is None else body.properties:
        described = " ".join(str(schema.get("properties", {}).get(name, {}).get("description", "")).split())
        first = described.partition(". ")[0].removesuffix(".")
        lines.append(f"    {name}{' (required)' if name in schema.get('required', ()) else ''}: {first}.")
    return "\n".join(lines)


def _charge_id(world: World, charge: Any) -> str | None:
    """The id of a Charge or a Static Charge, or None. Raises `ValueError` for an id that the sandbox does not have."""
    charge_id = charge.id if isinstance(charge, Resource) else charge
    if charge_id is None:
        return None
    with world.exclusive():
        found = isinstance(charge_id, str) and any(
            world.store.table(name).row(charge_id) is not None for name in ("charges", "static_charges")
        )
        removed = world.removed.unknown("charges", "staticCharges")
    if not found:
        raise ArgumentError(
            f"charge={quoted(charge)} is not a Charge or a Static Charge of this sandbox: give one, or its id, such as"
            f" charge=list(sb.charges)[-1]{removed}"
        )
    return cast(str, charge_id)


def _as_json(value: Any, depth: int = 0) -> Any:
    """The arguments of a receiver's method as JSON values. Raises `ValueError` for lists in lists in lists."""
    if isinstance(value, (list, tuple)):
        if depth > MAX_DEPTH:
            raise ArgumentError(f"{quoted(value, 40)} ... nests deeper than {MAX_DEPTH} levels: give a list of replies")
        return [_as_json(one, depth + 1) for one in value]
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Integral) and not isinstance(value, bool):  # numpy's numbers, too
        return int(value)
    return reply_resource(stored_reply(value)) if isinstance(value, Reply) else value


def _listed(value: Any) -> Any:
    """The items of what is read in order, such as a range or an iterator, as a list; any other value unchanged."""
    is_in_order = isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Set, Mapping, Reply))
    return list(checked_list("script", value)) if is_in_order else value
