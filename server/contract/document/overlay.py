"""Overlays: changes to a document (OpenAPI Overlay 1.0), each for another reading of the specification.

Where Overlay 1.0.0 leaves a merge open, the rules 1.1.0 wrote down are followed: within an update, objects merge,
arrays grow at their end, primitives replace primitives, and a change of kind is an error. Leyden is stricter on one
point: an action that selects nothing is an error, because an overlay that does nothing is a mistake.

Three extensions of an action let overlays edit the same text or schema in any order: `x-replace` replaces parts of the
selected texts, `x-append` adds a paragraph to them, and with `x-may-select-nothing: true` the action depends on what
other overlays have done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from leyden.server.contract.json_pointer import contract_error, quoted, suggestion

_FIELDS = {"overlay": str, "info": dict, "extends": str, "actions": list}
_INFO = ("title", "version", "description")
_ACTION = {
    "target": str, "description": str, "update": object, "remove": bool, "x-replace": dict, "x-append": str,
    "x-may-select-nothing": bool,
}  # fmt: skip
_KINDS = ("update", "x-replace", "x-append")
_MISSING = {
    "overlay": "write overlay: 1.0.0",
    "info": "write info: {title: ..., version: ...}",
    "actions": "write actions, a list of {target: ..., update: ...} and {target: ..., remove: true}",
    "title": "write what the overlay is called",
    "version": "write the version of the overlay",
    "target": "write the JSONPath of what the action changes",
}
_VERSION = re.compile(r"1\.0\.[0-9]+")


class Overlay(NamedTuple):
    """An overlay that was read. `extends` is the path or URL of the document it edits, None for any document; `source`
    is how errors name the overlay: its path as given, or its name."""

    source: str
    extends: str | None
    actions: tuple[Mapping[str, Any], ...]

    @property
    def extended_name(self) -> str | None:
        """The file name of the document it edits. An `extends` that ends with a slash has none."""
        return None if self.extends is None else self.extends.rsplit("/", 1)[-1]


def read_overlay(document: Any, source: str) -> Overlay:
    """Check an overlay document. `source` is its path as given, or its name.

    Raises `ContractError` naming what does not belong or is missing.
    """
    _check_keys(document, _FIELDS, ("overlay", "info", "actions"), source)
    if not _VERSION.fullmatch(document["overlay"]):
        raise contract_error(source, f"overlay: {document['overlay']!r} is not read; write overlay: 1.0.0")
    _check_keys(document["info"], dict.fromkeys(_INFO, str), ("title", "version"), f"{source}#/info")
    if not document["actions"]:
        raise contract_error(f"{source}#/actions", "is empty; write at least one action")
    for index, action in enumerate(document["actions"]):
        location = f"{source}#/actions/{index}"
        _check_keys(action, _ACTION, ("target",), location)
        kinds = [kind for kind in _KINDS if kind in action]
        if len(kinds) + bool(action.get("remove")) != 1:
            mend = "leave one of them out" if kinds else "write update with what changes, or remove: true"
            either = (
                "update or remove: true" if kinds in ([], ["update"]) else "update, remove: true, x-replace or x-append"
            )
            raise contract_error(location, f"must have either {either}; {mend}")
        for old, new in action.get("x-replace", {}).items():
            if not isinstance(old, str) or not isinstance(new, str) or not old:
                raise contract_error(f"{location}, x-replace", "write texts, {a text that is there: another text}")
    return Overlay(source, document.get("extends"), tuple(document["actions"]))


_MOST_SHOWN = 200  # characters of a target in an error


def apply_overlay(document: dict[str, Any], overlay: Overlay) -> None:
    """Edit `document` in place, action by action.

    Raises `ContractError` when a target is no JSONPath (RFC 9535) or selects nothing, or an update does not fit what
    is selected.
    """
    # Imported here because most starts use no overlay, and this import costs more than reading the spec.
    from jsonpath_rfc9535 import JSONPathError, find

    for index, action in enumerate(overlay.actions):
        target = action["target"]
        shown = target if len(target) <= _MOST_SHOWN else f"{target[:_MOST_SHOWN]} ..."
        location = f"overlay {overlay.source}, action {index + 1} ({action.get('description') or shown})"
        try:
            nodes = find(target, document)
        except JSONPathError as error:
            raise contract_error(location, f"{shown!r} is not JSONPath (RFC 9535): {error}") from None
        except RecursionError:
            raise contract_error(location, "the target nests too deeply: write a shorter one") from None
        if not nodes and not action.get("x-may-select-nothing"):
            raise contract_error(location, f"{shown} selects nothing; correct the target, or leave the overlay out")
        # From the last to the first, so that a removal moves nothing that is still to be removed.
        by_location = {node.location: node for node in nodes}
        for _, node in sorted(by_location.items(), reverse=True):
            if "x-replace" in action or "x-append" in action:
                if node.parent is None or not isinstance(node.value, str):
                    raise contract_error(location, f"{quoted(node.value)} is no text; target a text")
                holder: Any = node.parent.value
                holder[node.location[-1]] = _edited(node.value, action, location)
            elif "update" not in action:
                if node.parent is None:
                    raise contract_error(location, "the whole document cannot be removed; name a part of it")
                holder = node.parent.value
                del holder[node.location[-1]]
            elif isinstance(node.value, list):
                update = action["update"]
                node.value.extend(copied(update if isinstance(update, list) else [update]))
            elif isinstance(node.value, dict) and isinstance(action["update"], dict):
                _merge(node.value, action["update"], f"{location}: {shown}")
            else:
                raise contract_error(location, f"cannot update {quoted(node.value)}; target the object that holds it")


def _edited(text: str, action: Mapping[str, Any], location: str) -> str:
    """The text after `x-replace` or `x-append`."""
    for old, new in action.get("x-replace", {}).items():
        if old not in text:
            raise contract_error(
                location, f"{quoted(old)} is not in the text {quoted(text)}; correct x-replace, or leave an overlay out"
            )
        text = text.replace(old, new)
    if "x-append" in action:
        text = f"{text.rstrip()}\n\n{action['x-append']}"
    return text


def _merge(into: dict[str, Any], update: Mapping[str, Any], location: str) -> None:
    for key, value in update.items():
        if key not in into:
            into[key] = copied(value)
            continue
        old = into[key]
        if isinstance(old, dict) and isinstance(value, dict):
            _merge(old, value, f"{location}.{key}")
        elif isinstance(old, list) and isinstance(value, list):
            old.extend(copied(value))
        elif isinstance(old, (dict, list)) or isinstance(value, (dict, list)):
            raise contract_error(
                f"{location}.{key}",
                f"{quoted(value)} is another kind than {quoted(old)}; remove {key!r} in an action before",
            )
        else:
            into[key] = value


def copied(value: Any) -> Any:
    """A copy that shares no container, so that one update given to two targets never changes the overlay."""
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copied(item) for item in value]
    return value


def _check_keys(value: Any, fields: Mapping[str, Any], needed: tuple[str, ...], location: str) -> None:
    if not isinstance(value, dict):
        raise contract_error(location, f"must be a mapping, not {quoted(value)}")
    for key, item in value.items():
        if key not in fields:
            raise contract_error(location, f"unknown key {key!r}" + suggestion(str(key), fields, "leave it out"))
        if not isinstance(item, fields[key]):
            raise contract_error(
                f"{location}, {key}", f"{quoted(item)} does not fit; see the Overlay Specification 1.0.0"
            )
    for key in needed:
        if key not in value:
            raise contract_error(location, f"{key} is missing; {_MISSING[key]}")
