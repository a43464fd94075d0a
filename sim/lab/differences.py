"""The fields that differ between two worlds, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from leyden.lab.table_rows import COUNT, TABLES, TEXT, TIME, json_text
from leyden.server.callbacks.signing import stops_at_ms
from leyden.world.world import World

# The present states are compared; the journal holds the past.
_COMPARED = tuple(name for name in TABLES if name != "journal")
# Fields that differ whenever the clocks do.
_IGNORED = frozenset({("balances", "at")})

# What was set in the sandbox, by tables of the store: the kind of each field that is an instant. The others are texts,
# numbers or, where they have parts, JSON. `_HIDDEN` are the fields of which only whether there is a value is shown.
_SETTINGS: Mapping[str, frozenset[str]] = {
    "faults": frozenset({"created_at", "until"}),
    "service_faults": frozenset({"created_at", "until"}),
    "payers": frozenset({"created_at"}),
    "receivers": frozenset(),
    "traffic": frozenset({"started_at", "ends_at", "next_at"}),
    "interceptors": frozenset({"from_ms", "until_ms"}),
}
_HIDDEN = frozenset({("receivers", "secret")})
_OF_THE_RUN = frozenset({("receivers", "restored")})  # which of the callbacks were there at the last restore


class Difference(NamedTuple):
    """One field of a row that differs. `kind` is the kind of its column."""

    table: str
    id: str
    field: str
    kind: str
    here: Any
    there: Any


def differences(here: World, there: World) -> Iterator[Difference]:
    """Each field that differs. A row that only one world has comes with all its fields that are not None. The `id` of a
    row with a key of several columns (`payment`, `attempt`) is their values joined by colons.

    After the tables comes what was set: `sandbox` (`now`, `seed` and `start`), `webhook_secrets` without the secrets
    themselves, `faults`, `service_faults`, `payers`, `receivers`, `traffic` and `interceptors`. Not compared are the
    event journal, API keys, the rate of the clock, the posts of inboxes besides their number, what faults and inboxes
    delay, returning customers, responses kept for an Idempotency-Key, and the random numbers to come.
    """
    for name in _COMPARED:
        table = TABLES[name]
        ours, theirs = ({_key(row, table.key): row for row in table.rows(world)} for world in (here, there))
        kinds = dict(table.columns)
        yield from _of_table(name, kinds, ours, theirs)
        for rows in (ours, theirs):
            while rows:  # freed one by one, as they are compared: all at once would hold the threads of a server
                rows.popitem()
    yield from _of_table("sandbox", {"now": TIME, "seed": COUNT, "start": TIME}, _run(here), _run(there))
    yield from _of_table("webhook_secrets", {"since": TIME, "until": TIME}, *_secrets(here, there))
    for name, instants in _SETTINGS.items():
        yield from _of_settings(name, instants, *(_settings(name, world) for world in (here, there)))


def _of_table(
    name: str, kinds: Mapping[str, str], ours: Mapping[str, Mapping[str, Any]], theirs: Mapping[str, Mapping[str, Any]]
) -> Iterator[Difference]:
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        mine, other = ours.get(key, {}), theirs.get(key, {})
        if mine == other:
            continue
        for field, kind in kinds.items():
            values = mine.get(field), other.get(field)
            if values[0] != values[1] and (name, field) not in _IGNORED:
                yield Difference(name, key, field, kind, *values)


def _key(row: Mapping[str, Any], key: tuple[str, ...]) -> str:
    return ":".join(str(row[part]) for part in key if row[part] is not None)


# What was set in the sandbox


def _run(world: World) -> dict[str, Mapping[str, Any]]:
    return {"sandbox": {"now": world.clock.now(), "seed": world.config.seed, "start": world.config.start_ms}}


def _settings(name: str, world: World) -> dict[str, Mapping[str, Any]]:
    data = world.store.tables.get(name)
    return {} if data is None else {row["id"]: row for row in data.rows.values()}


def _of_settings(
    name: str,
    instants: frozenset[str],
    ours: Mapping[str, Mapping[str, Any]],
    theirs: Mapping[str, Mapping[str, Any]],
) -> Iterator[Difference]:
    fields = dict.fromkeys(field for rows in (ours, theirs) for row in rows.values() for field in row)
    kinds = {
        field: TIME if field in instants else TEXT
        for field in fields
        if field != "id" and (name, field) not in _OF_THE_RUN
    }
    for one in _of_table(name, kinds, ours, theirs):
        values = (one.here, one.there)
        if (name, one.field) in _HIDDEN:
            values = _hidden(values[0], "this one"), _hidden(values[1], "another one")
        yield one._replace(here=_plain(values[0]), there=_plain(values[1]))


def _plain(value: Any) -> Any:
    """A value that is one by itself; lists and objects as JSON."""
    return json_text(value) if isinstance(value, list | dict) else value


def _hidden(value: Any, shown: str) -> str | None:
    """That there is a secret, and that it is not the same."""
    return None if value is None else shown


def _secrets(here: World, there: World) -> list[dict[str, Mapping[str, Any]]]:
    """The webhook secrets of both, numbered in the order of their first instants: none of them is shown."""
    rows = [_timed(world) for world in (here, there)]
    known = sorted({key: row["since"] for one in rows for key, row in one.items()}.items(), key=lambda item: item[1])
    numbers = {key: str(number) for number, (key, _) in enumerate(known, 1)}
    return [{numbers[key]: row for key, row in one.items()} for one in rows]


def _timed(world: World) -> dict[tuple[str, int], dict[str, Any]]:
    """The time of each secret, by the secret and how often it was given before."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    secrets = world.service.projects.secrets(world.config.project)
    for row in secrets:
        key = (row["secret"], sum(secret == row["secret"] for secret, _ in found))
        found[key] = {"since": row["from_ms"], "until": stops_at_ms(secrets, row)}
    return found
