"""Obligations of Idempotency-Key: bodies that are the same request or another one, first responses, times, restarts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from json import dumps
from typing import Any

from leyden.harness.obligations.obligation import (
    JSON_TYPE,
    KEY,
    DocumentedOperation,
    Obligation,
    operations_of,
    request_of,
)
from leyden.harness.steps import Step
from leyden.harness.targets.target import RESTARTS

_DAY_MS = 86_400_000
# The members of a body as JSON texts; each can be written in another way, with the same or with another meaning.
_MEMBERS = {
    "description": '"caf\\u00c3\\u00a9"', "internalId": '"a/b"', "expiresIn": "60",
    "x": '{"a": [1, 2, {"b": null}], "c": 1.5, "d": "1"}',
}  # fmt: skip
_OTHER: Mapping[str, Sequence[str]] = {
    "description": ('"caf\\u00C3\\u00A9"', '"caf\\u00c3\\u00a9 "', '" caf\\u00c3\\u00a9"', '"CAF\\u00c3\\u00a9"',
                    '"c\\u0061f\\u00c3\\u00a9"', '"cafe\\u0301"', '""', '"caf\\u00c3\\u00a9\\u0000"'),
    "internalId": ('"a\\/b"', '"a\\u002fb"', '"a/b "', '"A/B"', "null", '""', '"a%2Fb"', '"b"'),
    "expiresIn": ("60.0", "6e1", "6E1", "60e0", "0.6e2", '"60"', "61", "0", "null", '""', "600", "-60", "true"),
    "x": ('{"c": 1.5, "d": "1", "a": [1, 2, {"b": null}]}', '{"a": [2, 1, {"b": null}], "c": 1.5, "d": "1"}',
          '{"a": [1, 2, {}], "c": 1.5, "d": "1"}', '{"a": [1.0, 2, {"b": null}], "c": 1.5, "d": "1"}',
          '{"a": [1, 2, {"b": null}], "c": 1.50, "d": "1"}', '{"a": [1, 2, {"b": null}], "c": 15e-1, "d": "1"}',
          '{"a": [1, 2, {"b": null}], "c": 1.5, "d": 1}', '{"a": [true, 2, {"b": null}], "c": 1.5, "d": "1"}',
          '{"A": [1, 2, {"b": null}], "c": 1.5, "d": "1"}', '{"a": [1, 2, {"b": false}], "c": 1.5, "d": "1"}',
          '{"a": [1, 2, {"b": null}, 3], "c": 1.5, "d": "1"}', "null", "{}", "[]", '"x"', "9007199254740993",
          "9007199254740992", "9007199254740993.0"),
}  # fmt: skip
# Values of an unknown field that a careless comparison takes for each other, or for different ones.
_PAIRS = (
    ("1", "1.0"), ("1", "1e0"), ("1.0", "1e0"), ("1", "true"), ("0", "false"), ("1", '"1"'), ("1.5", '"1.5"'),
    ("null", '""'), ("null", "false"), ("null", "0"), ("null", "{}"), ("[]", "{}"), ("[]", '""'), ("0", "-0"),
    ("0.0", "-0.0"), ("100", "1E2"), ("0.1", "0.10"), ("0.1", "0.1000000000000000055"),
    ("9007199254740993", "9007199254740992"),
    ("18446744073709551616", "18446744073709551617"),
    ("[1, 2]", "[2, 1]"), ("[1]", "[1, 1]"), ("[1]", "1"),
    ("[[1]]", "[1]"),
    ('{"a": 1}', '{"a": 1, "b": null}'), ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'), ('{"a": {"b": 1}}', '{"a.b": 1}'),
    ('"a"', '"A"'), ('"a"', '"\\u0061"'), ('"a"', '" a"'), ('"a b"', '"a  b"'), ('"\\u00e9"', '"e\\u0301"'),
    ('"\\ud83d\\ude00"', '"\u00f0\u009f\u0098\u0080"'), ('"\\u00df"', '"ss"'), ('"a\\u0000"', '"a"'),
    ('"\\n"', '"\\\\n"'),
    ('"' + "x" * 5_000 + 'a"', '"' + "x" * 5_000 + 'b"'),
)  # fmt: skip
_MANY = 130  # more than a careless service keeps
_AROUND = {
    "blanks": " {{{}}} ", "line ends": "\r\n{{\n{}\r\n}}\n\n", "tabs": "\t{{\t{}\t}}\t",
    "unknown field": '{{{}, "y": 0}}',
    "unknown null": '{{{}, "y": null}}', "repeated name": '{{{}, "x": 1}}',
}  # fmt: skip
_HEADERS: Mapping[str, list[list[str]]] = {
    "name in capitals": [["IDEMPOTENCY-KEY", "K"]], "name in small letters": [["idempotency-key", "K"]],
    "other media type": [["Idempotency-Key", "K"], ["Accept", "application/*"]],
    "other header": [["X-Request-Id", "7"], ["Idempotency-Key", "K"]],
    "without": [], "key in small letters": [["Idempotency-Key", "k"]], "longer": [["Idempotency-Key", "KK"]],
    "other name": [["X-Idempotency-Key", "K"]], "percent": [["Idempotency-Key", "%4B"]],
    "quoted": [["Idempotency-Key", '"K"']], "twice": [["Idempotency-Key", "K"], ["Idempotency-Key", "K"]],
}  # fmt: skip


def idempotency_obligations() -> Iterator[Obligation]:
    """For each operation with the header: what is the same request, which first responses count, and for how long."""
    for one in operations_of():
        if any(each["name"].lower() == "idempotency-key" for each in one.parameters):
            yield from _bodies(one)
            yield from _requests(one)
            yield from _first_responses(one)
            yield from _times(one)


class _RepeatedRequest:
    """Requests of one operation with one key, each with a part of the key that no other obligation has."""

    def __init__(self, one: DocumentedOperation, case: str) -> None:
        self.one, self.case = one, case
        self.key = re.sub(r"[^A-Za-z0-9]", "-", f"{one.name}-{case}")[:200]

    def step(self, raw: str = "", headers: Sequence[Sequence[str]] | None = None, **more: Any) -> Step:
        named = [["Idempotency-Key", "K"]] if headers is None else headers
        own = [[name, self._filled(value) if name.lower().endswith("idempotency-key") else value]
               for name, value in named]  # fmt: skip
        first = more.pop("by", KEY)
        return request_of(self.one, headers=[first, JSON_TYPE, *own], raw=raw or _raw(self.one), **more)

    def _filled(self, text: str) -> str:
        return self.key.swapcase() if text == "k" else text.replace("K", self.key)

    def obligation(self, kind: str, steps: Sequence[Step], setup: str = "empty") -> Obligation:
        place = f"{self.one.name} header.Idempotency-Key"
        return Obligation(place, kind, self.case, self.one.source, tuple(steps), setup=setup)


def _members(one: DocumentedOperation) -> dict[str, str]:
    return {**{name: dumps(value) for name, value in one.example.items()}, **_MEMBERS}


def _raw(one: DocumentedOperation, template: str = "{{{}}}", **other: str) -> str:
    return template.format(", ".join(f'"{name}": {text}' for name, text in {**_members(one), **other}.items()))


def _bodies(one: DocumentedOperation) -> Iterator[Obligation]:
    texts = {name: _raw(one, template) for name, template in _AROUND.items()}
    backwards = [*_members(one).items()][::-1]
    texts["backwards"] = "{" + ", ".join(f'"{name}": {text}' for name, text in backwards) + "}"
    texts["no blanks"] = _raw(one).replace(", ", ",").replace(": ", ":")
    texts["escaped name"] = _raw(one).replace('"x"', '"\\u0078"')
    texts["name in capitals"] = _raw(one).replace('"x"', '"X"')
    for name, values in _OTHER.items():
        texts |= {f"{name} {value}": _raw(one, **{name: value}) for value in values}
        members = {other: text for other, text in _members(one).items() if other != name}
        texts[f"without {name}"] = "{" + ", ".join(f'"{other}": {text}' for other, text in members.items()) + "}"
    for number, (value, other) in enumerate(_PAIRS):
        asked = _RepeatedRequest(
            one, f"values {number} {value[:24]} and {other[:24]}".encode("ascii", "replace").decode()
        )
        steps = [asked.step(_raw(one, x=text)) for text in (value, other, value)]
        yield asked.obligation("same-value", steps)
    for name, schema in (one.body or {}).get("properties", {}).items():
        if "default" in schema:
            asked = _RepeatedRequest(one, f"default of {name}")
            spelled = asked.step(_raw(one, **{name: dumps(schema["default"])}))
            members = {other: text for other, text in _members(one).items() if other != name}
            without = asked.step("{" + ", ".join(f'"{other}": {text}' for other, text in members.items()) + "}")
            yield asked.obligation("same-body", [without, spelled, without, spelled])
    for number, (case, raw) in enumerate(texts.items()):
        asked = _RepeatedRequest(one, f"body {number} {case}".encode("ascii", "replace").decode())
        plain = asked.step()
        yield asked.obligation("same-body", [plain, asked.step(raw), plain, asked.step(raw)])


def _requests(one: DocumentedOperation) -> Iterator[Obligation]:
    for case, headers in _HEADERS.items():
        asked = _RepeatedRequest(one, case)
        yield asked.obligation("same-request", [asked.step(), asked.step(headers=headers), asked.step()])
    other = next(each for each in operations_of() if each.body is not None and each.method == "POST" and each != one)
    requests: dict[str, dict[str, Any]] = {
        "encoded path": {"target": one.path.replace("/c", "/%63").replace("/s", "/%73")},
        "empty query": {"target": f"{one.path}?"},
        "other project": {"by": ["apikey", "{second}"]},
        "name of the key in capitals": {"by": ["APIKEY", "{key}"]},
    }
    for case, again in requests.items():
        asked = _RepeatedRequest(one, case)
        changed = asked.step(_raw(one, description='"other"'), **again)
        yield asked.obligation("same-request", [asked.step(), asked.step(**again), changed, asked.step()])
    asked = _RepeatedRequest(one, "other key of the project")
    spare: dict[str, Any] = {"by": ["apikey", "{spare}"]}
    changed = asked.step(_raw(one, description='"other"'), **spare)
    yield asked.obligation("same-request", [{"do": "spare_key"}, asked.step(), asked.step(**spare), changed])
    asked = _RepeatedRequest(one, f"after {_MANY} other requests")
    others = [_RepeatedRequest(one, f"number {number} of many").step() for number in range(_MANY)]
    yield asked.obligation("same-request", [asked.step(), *others, asked.step(), others[0]])
    asked = _RepeatedRequest(one, "other operation")
    foreign = request_of(other, headers=[KEY, JSON_TYPE, ["Idempotency-Key", asked.key]])
    yield asked.obligation("same-request", [asked.step(), foreign, foreign, asked.step()])
    for size in (254, 255):
        keys = [["Idempotency-Key", "z" * (size - 1) + last] for last in "ab"]
        asked = _RepeatedRequest(one, f"last of {size} characters")
        steps = [request_of(one, headers=[KEY, JSON_TYPE, key], raw=_raw(one)) for key in (*keys, *keys)]
        yield asked.obligation("same-request", steps)


def _first_responses(one: DocumentedOperation) -> Iterator[Obligation]:
    """A response that is not stored leaves the key to the next request; any other is repeated."""
    responses: dict[str, dict[str, Any]] = {
        "400": {"raw": "{}"}, "400 no JSON": {"raw": "{"}, "401": {"by": ["apikey", "nobody"]},
        "406": {"headers": [["Accept", "text/html"], ["Idempotency-Key", "K"]]},
        "409": {"raw": _raw(one, expiresIn="60.0")}, "413": {"raw": " " * 70_000},
        "404": {"target": f"{one.path}/x"}, "405": {"method": "PUT"}, "200": {},
    }  # fmt: skip
    if "minAmount" in one.example:
        responses["409 crossed"] = {"raw": _raw(one, minAmount='"2000"', maxAmount='"1000"')}
    for case, first in responses.items():
        asked = _RepeatedRequest(one, f"after {case}")
        step = asked.step(**first)
        plain = asked.step()
        again = asked.step(_raw(one, description='"other"'))
        yield asked.obligation("first-response", [step, step, plain, step, plain, again])
    asked = _RepeatedRequest(one, "after 415")
    untyped = request_of(one, headers=[KEY, ["Idempotency-Key", asked.key]], raw=_raw(one))
    yield asked.obligation("first-response", [untyped, asked.step(), asked.step(), untyped])
    asked = _RepeatedRequest(one, "after 429")
    limit: Step = {"do": "fault", "kind": "rate_limit", "operation": one.name}
    yield asked.obligation("first-response", [limit, asked.step(), asked.step(), limit, asked.step(), asked.step()])


def _times(one: DocumentedOperation) -> Iterator[Obligation]:
    """The bound of the retention; what happened to the resource meanwhile; restarts."""
    for late in (_DAY_MS - 1, _DAY_MS, _DAY_MS + 1):
        for before in (0, _DAY_MS // 2):
            asked, other = (
                _RepeatedRequest(one, f"{late} ms later, also after {before} ms"),
                _RepeatedRequest(one, f"beside {late} {before}"),
            )
            steps: list[Step] = [
                asked.step(),
                {"do": "advance", "by": 1},
                other.step(),
                {"do": "advance", "by": before},
            ]
            steps += [asked.step(), {"do": "advance", "by": late - before - 1}]
            steps += [other.step(_raw(one, x="0")), asked.step(_raw(one, x="0")), asked.step(), other.step()]
            steps += [
                {"do": "advance", "by": 1},
                asked.step(_raw(one, x="0")),
                other.step(),
                {"do": "advance", "by": 1},
            ]
            steps += [other.step(), {"do": "advance", "by": _DAY_MS - 3}, asked.step(_raw(one, x="0")), asked.step()]
            yield asked.obligation("retention", steps)
            yield asked.obligation("retention:restarts", _restarted(steps), setup="keys-changed")
    yield from _by_other_keys(one)
    static = one.name == "createStaticCharge"
    meanwhile: dict[str, list[Step]] = {
        "followed": [{"do": "follow", "what": "k1"}],
        "expired": [{"do": "advance", "to": ["expiry", "k1"], "offset": 0}],
        "rotated": [{"do": "rotate"}],
        "changed": [{"do": "patch", "static": "k1", "body": {"description": "new", "allowedSlots": 1}}] if static
        else [{"do": "fail", "charge": "k1"}],
    }  # fmt: skip
    for case, steps in meanwhile.items():
        asked = _RepeatedRequest(one, f"then {case}")
        whole = [asked.step(**{"as": "k1"}), *steps, asked.step(), asked.step(_raw(one, x="0"))]
        yield asked.obligation("retention", whole, setup="keys-changed")
        yield asked.obligation("retention:restarts", _restarted(whole), setup="keys-changed")


def _by_other_keys(one: DocumentedOperation) -> Iterator[Obligation]:
    """A repeated request with another API key of the project, which was created or replaced meanwhile."""
    spare: Step = {"do": "spare_key"}

    def asked(key: str, **body: Any) -> Step:
        headers = [["apikey", key], JSON_TYPE, ["Idempotency-Key", "K"]]
        return request_of(one, headers=headers, body={**one.example, **body})

    own, other, foreign = "{key}", "{spare}", "{second}"
    restart: Step = {"do": "restart", "how": "kill"}
    orders: dict[str, tuple[Step, ...]] = {
        "first by the present key": (spare, asked(own), asked(other), asked(own)),
        "first by the new key": (spare, asked(other), asked(own), asked(other)),
        "another body": (spare, asked(own), asked(other, description="another"), asked(other)),
        "before the new key": (asked(own), spare, asked(other)),
        "another project": (spare, asked(other), asked(foreign), asked(own)),
        "a key that is replaced": (spare, asked(other), spare, asked(other)),
        "after a restart": (spare, asked(own), restart, asked(other)),
    }
    for case, steps in orders.items():
        place = f"{one.name} header.Idempotency-Key"
        yield Obligation(place, "by-another-key", case, one.source, tuple(steps), setup="keys-changed")


def _restarted(steps: Sequence[Step]) -> list[Step]:
    found: list[Step] = []
    for index, step in enumerate(steps):
        found += [step, {"do": "restart", "how": RESTARTS[index % 3]}]
    return found
