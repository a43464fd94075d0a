"""Checks of the lists of the control plane: each page, filter and row agrees with the whole list."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

from leyden.harness.control.documents import ControlList, single_of, states_of
from leyden.harness.control.filters import CHARGES, STATICS, Row, drawn, meaning_of, value_of
from leyden.harness.control.host import Host, list_named, violation, with_query
from leyden.harness.steps import StepImpossible
from leyden.server.contract.json_schema.schemas import LateValidator

_MOST_ROWS = 40  # that are read alone
_MOST_PAGES = 500  # of one limit
_PLACES = {"first": 0.0, "middle": 0.5, "last": 1.0}
WHOLE = ""  # instead of the name of a parameter: the query
EVERY = "every"  # in the place of a row: the values of all rows
PLACES = (*_PLACES, EVERY)
_MOST_VALUES = 48  # of all rows
CHECKS = ("pages", "order", "rows", "refused", "filter", "pair", "portions", "changed", "between", "members")
_MOST_PAIR_VALUES = 6  # of each of two filters; and as many others
_PAIRS = 3  # of values
_MOST_DRAWN = 120  # rows whose values are used
_MOST_PORTION_PAGES = 30
# So many rows, from the newest, a list may read at once.
_PORTIONS = (100, 200, 256, 300, 768)


def check_list(host: Host, step: Mapping[str, Any]) -> None:
    """Do one step `control_list` with its `check`."""
    of = list_named(step["operation"])
    path = host.filled(step.get("target", of.operation.path))
    match step["check"]:
        case "pages":
            _check_pages(host, of, path, step.get("query", {}))
        case "order":
            _check_order(host, of, host.full(of, path))
            _check_present(host, of, host.full(of, path))
        case "rows":
            _check_rows(host, of, path)
        case "refused":
            _refused(host, f"{path}?{step['raw']}", [step["kind"]])
        case "filter":
            _check_filter(host, of, path, step["draw"])
        case "pair":
            _check_pair(host, of, path, [name for name, *_ in step["draw"]])
        case "portions":
            _check_portions(host, of, path, step["query"])
        case "changed":
            _check_changed(host, of, path, step["steps"])
        case "between":
            _check_between(host, of, path, step)
        case "members":
            _check_members(host, of, path, step["kind"])
        case other:
            raise StepImpossible(other)


# Pages


def _check_pages(host: Host, of: ControlList, path: str, query: Mapping[str, str]) -> None:
    """Pages of each limit, joined, are the whole list."""
    full = host.full(of, path, **query)
    limit = of.operation.parameters["limit"]["schema"]
    sizes = {1, 2, 7, limit["default"], limit["maximum"], len(full) - 1, len(full), len(full) + 1}
    least = max(limit["minimum"], len(full) // _MOST_PAGES)
    for size in sorted(size for size in sizes if least <= size <= limit["maximum"]):
        _same(full, host.pages(of, path, {**query, "limit": str(size)}), f"{of.name} with limit {size}")
    _same(full, host.pages(of, path, query), f"{of.name} without a limit")
    keys = Counter(_key(row) for row in full)
    twice = [key for key, count in keys.items() if count > 1]
    if twice and "id" in of.row["properties"] and "kind" not in of.row["properties"]:
        raise violation(of.name, "each row once", f"more than once: {twice[:3]}")
    if of.numbered and full:
        number = full[len(full) // 2][of.numbered]
        for after in (number - 1, number, full[-1][of.numbered]):
            rows = host.pages(of, path, {**query, "after": str(after), "limit": str(limit["maximum"])})
            _same([row for row in full if row[of.numbered] > after], rows, f"{of.name} after {after}")


def _key(row: Row) -> str:
    return str(row.get("id", row.get("name", row)))


def _event(row: Row) -> str:
    """What no two events have: one thing may have several, and a retry has the id of the attempt before it."""
    return f"{row.get('at')} {row.get('kind')} {_key(row)}"


def _same(expected: Sequence[Row], observed: Sequence[Row], where: str) -> None:
    if list(expected) == list(observed):
        return
    wanted, found = [_key(row) for row in expected], [_key(row) for row in observed]
    if wanted == found:
        place = next(n for n, pair in enumerate(zip(expected, observed, strict=True)) if pair[0] != pair[1])
        raise violation(f"{where}: row {place}", expected[place], observed[place])
    missing, more = [one for one in wanted if one not in found], [one for one in found if one not in wanted]
    words = f"{len(found)} rows; missing: {missing[:3]}; not expected: {more[:3]}"
    raise violation(where, f"{len(wanted)} rows: those of the whole list, in its order", words)


def _check_order(host: Host, of: ControlList, full: Sequence[Row]) -> None:
    """The order that the document says: of creation, or of time."""
    sign = -1 if of.order == "newest" else 1
    ids = [host.created[key] for row in full if (key := str(row.get("id"))) in host.created]
    if of.order in {"newest", "oldest"} and ids != sorted(ids, key=lambda place: sign * place):
        raise violation(of.name, f"the {of.order} first, by creation", f"rows in the order {ids[:8]} of creation")
    for member in (of.numbered, "id", "createdAt", "at"):
        values = [row.get(member) for row in full if member]
        typed = all(isinstance(value, int) for value in values) if member in {of.numbered, "id"} else True
        if values and None not in values and typed and of.order and (of.order != "time" or member == "at"):
            wrong = next((pair for pair in pairwise(values) if _before(pair[1], pair[0], sign)), None)
            if wrong is not None:
                raise violation(f"{of.name}: {member}", f"the order of the document ({of.order})", list(wrong))
    if of.numbered and full and [row[of.numbered] for row in full] != [*range(1, len(full) + 1)]:
        raise violation(of.name, "numbers from 1, without a gap", [row[of.numbered] for row in full][:5])
    first = [row["shop"] for row in full if "shop" in row]
    if first and (not first[0] or any(first[1:])):
        raise violation(of.name, "the node of this service first, and once", first[:5])


def _check_present(host: Host, of: ControlList, full: Sequence[Row]) -> None:
    """The list has every row that a request created, and of the deliveries each one that an inbox received."""
    ids = {str(row.get("id")) for row in full}
    wanted = [*host.present.get(_CREATED_AT.get(of.name, of.operation.path), ())]
    if of.name == "listDeliveries":
        for row in host.rows("listInboxes"):
            posts = host.read(f"/sandbox/v1/inboxes/{row['name']}?limit=1000")["posts"]
            wanted += [post["headers"]["webhook-id"] for post in posts if not post["copy"]]
    missing = [one for one in wanted if one not in ids]
    if missing:
        raise violation(of.name, f"{len(wanted)} rows that were created", f"{len(missing)} are missing: {missing[:3]}")


def _before(one: Any, other: Any, sign: int) -> bool:
    return bool(one < other if sign > 0 else one > other)


# Rows


def _check_rows(host: Host, of: ControlList, path: str) -> None:
    """Each row is as the operation that reads it alone shows it."""
    views: list[dict[str, str]] = [{}]
    views += [{name: "true"} for name, one in of.filters.items() if one["schema"].get("type") == "boolean"]
    if single_of(of) is None:
        raise StepImpossible(of.name)
    for query in views:
        full = host.full(of, path, **query)
        for row in full[:: max(1, len(full) // _MOST_ROWS)]:
            for name, expected, observed in _differences(row, host.details(of.name, row), complete=bool(query)):
                raise violation(f"{of.name}: {_key(row)}: {name}", expected, observed)


def _differences(row: Row, details: Row, *, complete: bool) -> Iterator[tuple[str, Any, Any]]:
    if any(value == row for value in details.values()):
        return
    for name, value in row.items():
        one = details.get(name, value)
        if isinstance(one, list) and isinstance(value, int):
            one = sum(not each.get("closed") for each in one)
        if isinstance(one, list) and isinstance(value, list) and not complete:
            one = [
                {member: each[member] for member in shown} if isinstance(each, Mapping) else each
                for each, shown in zip(one, value, strict=False)
            ]
        if one != value:
            yield name, one, value
    if not (row.keys() & details.keys()) or (complete and details.keys() != row.keys()):
        yield "members", sorted(details), sorted(row)


def _check_members(host: Host, of: ControlList, path: str, name: str) -> None:
    """Rows have the members that the document gives a list on request if this parameter is true, and not otherwise."""
    optional = [*_on_request(of.row, f"`{name}=true`")]
    if not optional:
        raise StepImpossible(f"no member of {of.name} is there on request only")
    for query in ({}, {name: "false"}, {name: "true"}):
        for row in host.full(of, path, **query):
            for members in optional:
                found = [name in one for one in _holders(row, members[:-1]) for name in members[-1:]]
                if not all(has is (query.get(name) == "true") for has in found):
                    words = "has" if query.get(name) == "true" else "does not have"
                    raise violation(with_query(of.name, query), f"a row {words} {'.'.join(members)}", sorted(row))


def _on_request(schema: Mapping[str, Any], words: str) -> Iterator[tuple[str, ...]]:
    for name, one in schema.get("properties", {}).items():
        text = " ".join(str(one.get("description", "")).split())
        if words in text and "list has" in text:
            yield (name,)
        if "items" in one:
            yield from ((name, *path) for path in _on_request(one["items"], words))


def _holders(row: Row, path: Sequence[str]) -> Iterator[Row]:
    """The objects at a path of lists in a row."""
    if not path:
        yield row
    for one in row.get(path[0], ()) if path else ():
        yield from _holders(one, path[1:])


# Parameters


def _refused(host: Host, target: str, names: Sequence[str]) -> None:
    """A query that the document does not allow gets 400, which names the parameter, or the query if it is `WHOLE`."""
    response = host.ask("GET", target)
    detail = str(response.json.get("detail")) if isinstance(response.json, Mapping) else ""
    if response.status != 400 or not any(f"query.{name}".removesuffix(".") in detail for name in names):
        raise violation(f"GET {target}", f"400 about query.{names[0]}", f"{response.status} {detail[:100]}")


def _check_filter(host: Host, of: ControlList, path: str, draws: Sequence[Sequence[str]]) -> None:
    """A filter returns the rows of the whole list for which its meaning is true. A draw has the parameter, the place of
    the row from which the value is drawn, and the kind of the value."""
    full = host.full(of, path)
    choices = [
        [value_of(kind, value, of.filters[name]["schema"]) for value in _drawn(host, of, full, name, place)]
        for name, place, kind in draws
    ]
    for values in dict.fromkeys(product(*choices)):
        query = dict(zip([name for name, *_ in draws], values, strict=True))
        wrong = [name for name, value in query.items() if not _is_allowed(of, name, value)]
        if wrong:
            _refused(host, with_query(path, query), wrong)
        else:
            _filtered(host, of, path, full, query)


def _drawn(host: Host, of: ControlList, full: Sequence[Row], name: str, place: str) -> list[str]:
    """The values of a parameter that belong to the row at a place, or to the next one that has any, or to all rows."""
    if place == EVERY:
        values = list(dict.fromkeys(value for row in full for value in drawn(of, name, row, host)))
        if not values:
            raise StepImpossible(f"no row has a value of {name}")
        return values[:: max(1, len(values) // _MOST_VALUES)]
    start = place_of(place, len(full))
    for row in (*full[start:], *reversed(full[:start])):
        found = drawn(of, name, row, host)
        if found:
            return list(dict.fromkeys(found))
    raise StepImpossible(f"no row has a value of {name}")


def place_of(name: str, count: int) -> int:
    """The number of the row at one of the `PLACES` of a list with so many rows."""
    return round((count - 1) * _PLACES[name])


def _filtered(host: Host, of: ControlList, path: str, full: Sequence[Row], query: Mapping[str, str]) -> None:
    meanings = [(meaning_of(of, name), value) for name, value in query.items()]
    expected = [row for row in full if all(meaning and meaning(host, row, value) for meaning, value in meanings)]
    if not expected and 409 in of.operation.statuses and host.ask("GET", with_query(path, query)).status == 409:
        return  # a name that nothing can have
    most = str(of.operation.parameters["limit"]["schema"]["maximum"])
    _same(expected, host.pages(of, path, {"limit": most, **query}), with_query(of.name, query))
    if len(expected) > 1:
        size = str(max(1, len(expected) // 2))
        _same(expected, host.pages(of, path, {"limit": size, **query}), with_query(of.name, {"limit": size, **query}))


def _check_pair(host: Host, of: ControlList, path: str, names: Sequence[str]) -> None:
    """Two filters together, with values of which each changes what the other one finds."""
    full = host.full(of, path)
    found: list[list[tuple[str, frozenset[int]]]] = []
    for name in names:
        meaning = meaning_of(of, name)
        assert meaning is not None, name
        rows = full[:: max(1, len(full) // _MOST_DRAWN)]
        counted = Counter(value for row in rows for value in drawn(of, name, row, host))
        values = [value for value, _ in counted.most_common() if _is_allowed(of, name, value)]
        # Those of the most rows, and some of the others.
        others = values[_MOST_PAIR_VALUES:]
        chosen = values[:_MOST_PAIR_VALUES] + others[:: max(1, len(others) // _MOST_PAIR_VALUES)]
        found.append([
            (value, frozenset(n for n, row in enumerate(full) if meaning(host, row, value))) for value in chosen
        ])  # fmt: skip
    pairs = [
        (len(one & other) == 0, dict(zip(names, (first, second), strict=True)))
        for (first, one), (second, other) in product(*found)
        if one & other not in (one, other)
    ]
    if not pairs:
        raise StepImpossible(f"no values of {' and '.join(names)} of which each changes what the other one finds")
    pairs.sort(key=lambda pair: pair[0])  # first those with rows
    some, none = [query for empty, query in pairs if not empty], [query for empty, query in pairs if empty]
    for query in (*some[:: max(1, len(some) // _PAIRS)][:_PAIRS], *none[:1]):
        _filtered(host, of, path, full, query)


def _check_portions(host: Host, of: ControlList, path: str, query: Mapping[str, str]) -> None:
    """Pages of a filter that end before, at and after the end of a portion that the list may read at once."""
    full = host.full(of, path)
    meanings = [(meaning_of(of, name), value) for name, value in query.items()]
    matches = [all(meaning and meaning(host, row, value) for meaning, value in meanings) for row in full]
    expected = [row for row, is_match in zip(full, matches, strict=True) if is_match]
    if not expected:
        raise StepImpossible(f"no row for {query}")
    sizes = {1, len(expected) - 1, len(expected), len(expected) + 1}
    sizes |= {sum(matches[:portion]) + more for portion in _PORTIONS for more in (-1, 0, 1)}
    least = max(1, len(expected) // _MOST_PORTION_PAGES)
    most = of.operation.parameters["limit"]["schema"]["maximum"]
    for size in sorted(size for size in sizes if least <= size <= most):
        given = {**query, "limit": str(size)}
        _same(expected, host.pages(of, path, given), with_query(of.name, given))


# The paths at which the rows of lists are created, where it is not their own.
_CREATED_AT = {CHARGES: "/v0/charges", STATICS: "/v0/static-charges"}
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def _is_allowed(of: ControlList, name: str, value: str) -> bool:
    schema, states = of.filters[name]["schema"], states_of(of, name)
    if states and value not in states:
        return False
    if schema.get("format") == "uuid" and not _UUID.fullmatch(value):
        return False
    return LateValidator(dict(schema)).is_valid(value)


# Changes before and between pages


def _check_changed(host: Host, of: ControlList, path: str, steps: Sequence[Mapping[str, Any]]) -> None:
    """Rows are removed and others are added. Then the list has what is left, in its order and in pages of each size."""
    before = host.full(of, path)
    host.answers["page"] = [dict(row) for row in before]
    removed = _sent(host, steps)
    full = host.full(of, path)
    gone = {_key(row) for row in before} - {_key(row) for row in full}
    if gone != removed:
        raise violation(f"{of.name} without the removed rows", sorted(removed), sorted(gone))
    _check_order(host, of, full)
    _check_present(host, of, full)
    _check_pages(host, of, path, {})


def _sent(host: Host, steps: Sequence[Mapping[str, Any]]) -> set[str]:
    """Send the steps. Returns the ids of the rows of `page` that they remove."""
    for one in steps:
        host.answers.pop(one.get("as", ""), None)
    removed = {host.filled(one["target"]).rpartition("/")[2] for one in steps
               if one["method"] == "DELETE" and "{page." in one["target"]}  # fmt: skip
    for one in steps:
        host.send(one)
    return removed


def _check_between(host: Host, of: ControlList, path: str, step: Mapping[str, Any]) -> None:
    """Rows appear, change and are removed after the first page. The pages contain each row that existed all the time
    exactly once and in order, no removed row that was not read before, and new rows as the order of the list
    requires. With a `kind` the last row of the first page is one of these, and `page` has the rows from it on."""
    before = host.full(of, path)
    cursor = None
    if "kind" in step:
        places = [number for number, row in enumerate(before) if row.get("kind") == step["kind"]]
        if not places:
            raise StepImpossible(step["kind"])
        cursor = places[len(places) // 2]
    size = step.get("count", 3) if cursor is None else cursor + 1
    read: list[Row] = []
    key_of = _event if of.order == "time" else _key

    def change() -> None:
        host.answers["page"] = [dict(row) for row in before[cursor:]]
        _sent(host, step["steps"])

    read += host.pages(of, path, {"limit": str(size)}, change)
    host.forget()
    after = {key_of(row): row for row in host.full(of, path)}
    known = {key_of(row) for row in before}
    first = [key_of(row) for row in before[:size]]
    rest = [key_of(row) for row in before[size:] if key_of(row) in after]
    new = [key for key in after if key not in known]
    expected = [*first, *rest, *(new if of.order != "newest" else [])]
    observed = [key_of(row) for row in read]
    if of.order == "time":  # a new one has its own place in the order
        expected = [*first, *(key for key in after if key not in first)]
    if observed != expected:
        words = f"missing: {[key for key in expected if key not in observed][:3]}"
        more = f"not expected: {[key for key in observed if key not in expected][:3]}"
        raise violation(
            f"{of.name} with changes after the first page", expected[:8], f"{words}; {more}; {observed[:8]}"
        )
    for row in read[size:]:
        if row != after[key_of(row)]:
            raise violation(f"{of.name}: {key_of(row)} after a change", after[key_of(row)], row)
