"""Checks of the fields of request bodies of the control plane: a value that the document does not allow gets 400, which
names the field, and another one is accepted and shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from leyden.harness.control.documents import ControlOperation, control_operations
from leyden.harness.control.host import Host, violation
from leyden.harness.steps import StepImpossible
from leyden.server.contract.json_schema.schemas import LateValidator

_TEXTS = ("", "x", "X", " ", "a b", "caf\u00e9", "~", "a\u0000", "1", "01", "-1", "1s", "90S", "1.5h", "0.5",
          "2030-01-01", "2030-01-01T00:00:00Z", "2030-01-01T00:00:00", "null", "getWallet", "webhook-id")  # fmt: skip
_LENGTHS = (1, 2, 16, 36, 79, 80, 81, 99, 100, 101, 199, 200, 201, 255, 256, 257)
_OTHERS: tuple[Any, ...] = (None, True, False, 0, -1, 1, 1.5, [], {}, [1], {"x": 1})


def field_values(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Values of a field about each bound of its schema, of each type, and near its words; some are not allowed."""
    yield from _OTHERS
    yield from _TEXTS
    parts = [schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    for part in parts:
        for name in ("minimum", "maximum"):
            if name in part:
                yield from (part[name] + more for more in (-1, 0, 1))
        for word in (*part.get("enum", ()), *((part["const"],) if "const" in part else ())):
            yield from (word, word.upper(), f"{word} ") if isinstance(word, str) else (word,)
        if "string" in (part.get("type"), *(part["type"] if isinstance(part.get("type"), list) else ())):
            bounds = [part[name] for name in ("minLength", "maxLength") if name in part]
            lengths = {*_LENGTHS, *(bound + more for bound in bounds for more in (-1, 0, 1))}
            yield from ("a" * length for length in sorted(lengths) if length >= 0)
        items = part.get("items", {})
        one = next((value for value in (*items.get("enum", ()), *_TEXTS, {}) if _is_valid(items, value)), None)
        for name in ("minItems", "maxItems"):
            if name in part:
                yield from ([one] * (part[name] + more) for more in (-1, 0, 1) if part[name] + more >= 0)


def _is_valid(schema: Mapping[str, Any], value: Any) -> bool:
    return LateValidator(dict(schema)).is_valid(value)


def is_allowed(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether the document allows the value of a field."""
    return _is_valid(schema, value)


def check_field(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_field", "operation", "kind": field, "body": {...}, "target"?}: send the body, with a value in
    this field. One that is not allowed gets 400 about the field. With another one the answer shows it, where it has a
    member of this name, and the row that it adds is removed again."""
    one = next((each for each in control_operations() if each.name == step["operation"]), None)
    if one is None or step["kind"] not in step["body"]:
        raise StepImpossible(step["operation"])
    target = host.filled(step.get("target", one.example_path))
    name, body = step["kind"], host.filled(step["body"])
    response = host.ask(one.method, target, body)
    host.forget()
    where = f"{one.method} {target} with {name} {str(body[name])[:60]!r}"
    answer = response.json if response.body else {}
    if not is_allowed(one.fields[name], body[name]):
        errors = [each["pointer"] for each in answer.get("errors", ())] if response.status == 400 else []
        if not any(re.match(f"#?/{re.escape(name)}(/|$)", str(pointer)) for pointer in errors):
            raise violation(where, f"400 about /{name}", f"{response.status} {str(answer)[:200]}")
        return
    if response.status == 400 and any(f"/{name}" in str(each["pointer"]) for each in answer.get("errors", ())):
        raise violation(where, "a status other than 400", str(answer)[:300])
    if response.status not in (200, 201):
        return
    shown = _shown_schema(one, name)
    if shown is not None and _is_valid(shown, body[name]) and answer.get(name) != body[name]:
        raise violation(f"{where}: {name} in the response", body[name], answer.get(name))
    _remove(host, one, target, answer)


def _shown_schema(one: ControlOperation, name: str) -> Mapping[str, Any] | None:
    """The schema of the member of the answer that has the name of a field; None for an instant or a span, which may be
    written in another way, and without one."""
    found: Mapping[str, Any] | None = one.success.get("properties", {}).get(name)
    spans = [each for each in one.fields[name].get("anyOf", ()) if "pattern" in each]
    if found is None or spans or "format" in one.fields[name]:
        return None
    return found


def _remove(host: Host, one: ControlOperation, target: str, answer: Mapping[str, Any]) -> None:
    """Remove the row that was added, so that there is room for others."""
    path = f"{one.path}/{{"
    removal = any(each.method == "DELETE" and each.path.startswith(path) for each in control_operations())
    if one.method == "POST" and removal and isinstance(answer.get("id"), str):
        host.accepted("DELETE", f"{target}/{answer['id']}")
