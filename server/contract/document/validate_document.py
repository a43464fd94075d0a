"""Validates a document against the table of keywords. Each error names the location and the correction.

A keyword that is not in the table is refused, so a spelling mistake, or a keyword that would be ignored in silence,
never reaches a server. The walk also gathers what the compiler needs: every object by its location, and every `$ref`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leyden.server.contract.document.extensions import Extensions
from leyden.server.contract.document.keywords import FORMATS, OBJECTS, SECTIONS, TYPES, UNSERVED, fields, required
from leyden.server.contract.json_pointer import child, contract_error, quoted, suggestion
from leyden.server.errors import ContractError

_LEFT_OUT = "leave it out"
_KINDS = {kind: (fields(kind), required(kind)) for kind in OBJECTS}


@dataclass(slots=True)
class DocumentIndex:
    """The objects of a document by location with their kind, and each `$ref` with the kind that it must lead to."""

    root: str
    objects: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    references: list[tuple[str, str, str]] = field(default_factory=list)

    def of(self, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
        """The objects of these kinds with their locations, in the document's order."""
        return [(location, node) for location, (kind, node) in self.objects.items() if kind in kinds]


def validate_document(document: Any, root: str, extensions: Extensions) -> DocumentIndex:
    """Walk `document` against the table; `root` is the location of its root in errors, such as `charges.openapi.yaml#`.

    Raises `ContractError` at the first thing that is not allowed where it stands.
    """
    walker = _DocumentWalker(DocumentIndex(root), extensions)
    walker.visit(document, "document", root)
    for location, kind, target in walker.found_objects.references:
        walker.check_reference(location, kind, target)
    return walker.found_objects


class _DocumentWalker:
    def __init__(self, seen: DocumentIndex, extensions: Extensions) -> None:
        self.found_objects = seen
        self._extensions = extensions

    def visit(self, value: Any, form: str, location: str) -> None:
        if form == "text":
            if type(value) is not str:
                raise contract_error(location, f"must be a text, not {quoted(value)}")
        elif form == "any":
            return
        elif form[0] == "{":
            for key, item in self._mapping(value, location).items():
                self.visit(item, form[1:-1], child(location, key))
        elif form[0] == "[":
            if type(value) is not list:
                raise contract_error(location, f"must be a list, not {quoted(value)}")
            for index, item in enumerate(value):
                self.visit(item, form[1:-1], f"{location}/{index}")
        elif form in _PLAIN:
            test, expected = _PLAIN[form]
            if not test(value):
                raise contract_error(location, f"must be {expected}, not {quoted(value)}")
        elif form == "schema?":
            if type(value) is not bool:
                self._object(value, "schema", location)
        else:
            self._object(value, form, location)

    def _object(self, value: Any, kind: str, location: str) -> None:
        node = self._mapping(value, location)
        if kind == "callback":
            if self._is_reference(node, kind, location):
                return
            self.found_objects.objects[location] = (kind, node)
            for expression, item in node.items():
                self._object(item, "callbackItem", child(location, expression))
            return
        if kind != "schema" and self._is_reference(node, kind, location):
            return
        self.found_objects.objects[location] = (kind, node)
        forms, needed = _KINDS[kind]
        for key, item in node.items():
            form = forms.get(key)
            if form is None:
                raise self._unknown(kind, key, location)
            if form == "x":
                self._extensions.check(key, item, child(location, key))
            else:
                self.visit(item, form, child(location, key))
        for key in needed:
            if key not in node:
                raise contract_error(location, f"{key} is missing; every {kind} has one")
        if node.get("x-basis") == "decision" and "x-decision" not in node:
            raise contract_error(
                location, "x-basis: decision needs x-decision: the entry in DECISIONS.md that gives the reason"
            )
        if "x-decision" in node and "x-basis" not in node:
            raise contract_error(location, "x-decision without x-basis; add x-basis: decision")
        if kind == "schema":
            self._schema(node, location)
        elif "example" in node and "examples" in node:
            raise contract_error(location, "has both example and examples; keep one of them")

    def _schema(self, node: dict[str, Any], location: str) -> None:
        if "$ref" in node:
            self.found_objects.references.append((location, "schema", node["$ref"]))
        if node.get("format", "uuid") not in FORMATS:
            raise contract_error(
                location, f"format {node['format']!r} is not checked by anything" + suggestion(node["format"], FORMATS)
            )
        for word in ("enum", "allOf", "anyOf", "oneOf", "type"):
            if node.get(word) == []:
                raise contract_error(location, f"{word} is empty; list at least one, or leave it out")

    def _is_reference(self, node: dict[str, Any], kind: str, location: str) -> bool:
        if "$ref" not in node:
            return False
        if kind not in SECTIONS:
            raise contract_error(location, f"$ref cannot stand here; write the {kind} out")
        for key in node:
            if key not in {"$ref", "summary", "description"}:
                raise contract_error(
                    location, f"{key!r} beside $ref would be ignored; move it to what the reference names"
                )
        self.visit(node["$ref"], "text", f"{location}/$ref")
        self.found_objects.references.append((location, kind, node["$ref"]))
        return True

    def check_reference(self, location: str, kind: str, target: str) -> None:
        """A reference stays in the document and leads to an object of the right kind."""
        prefix = f"#/components/{SECTIONS[kind]}/"
        if not target.startswith(prefix):
            raise contract_error(
                location, f"$ref {quoted(target)} must begin with {prefix!r}: references are local and lead to a {kind}"
            )
        found = self.found_objects.objects.get(self.found_objects.root + target[1:])
        if found is None or found[0] != kind:
            if any(other == self.found_objects.root + target[1:] for other, _, _ in self.found_objects.references):
                raise contract_error(
                    location, f"$ref {quoted(target)} leads to another $ref; name what that one leads to"
                )
            names = [
                other[len(self.found_objects.root) :]
                for other, (its_kind, _) in self.found_objects.objects.items()
                if its_kind == kind and other.startswith(self.found_objects.root + prefix[1:])
            ]
            raise contract_error(
                location,
                f"$ref {quoted(target)} leads nowhere"
                + suggestion(
                    target, [f"#{name}" for name in names], f"name a {kind} below '{prefix}', or add it there"
                ),
            )

    def _unknown(self, kind: str, key: str, location: str) -> ContractError:
        instead = UNSERVED.get(kind, {}).get(key)
        if instead:
            return contract_error(location, f"{key!r} is not honoured here: {instead}")
        if key.startswith("x-"):
            locations = sorted(name for name, (table, _) in _KINDS.items() if key in table)
            if locations:
                return contract_error(
                    location, f"{key!r} does not belong on a {kind}; it stands on: {', '.join(locations)}"
                )
            keys = {name for table, _ in _KINDS.values() for name in table if name.startswith("x-")}
            return contract_error(location, f"unknown key {key!r}" + suggestion(key, keys, _LEFT_OUT))
        return contract_error(location, f"unknown key {key!r}" + suggestion(key, _KINDS[kind][0], _LEFT_OUT))

    def _mapping(self, value: Any, location: str) -> dict[str, Any]:
        if type(value) is not dict:
            raise contract_error(location, f"must be a mapping, not {quoted(value)}")
        for key in value:
            if type(key) is not str:
                raise contract_error(location, f"the key {key!r} must be a text")
        return value


def _is_types(value: Any) -> bool:
    names = value if type(value) is list else [value]
    return all(type(name) is str and name in TYPES for name in names)


_PLAIN: dict[str, tuple[Any, str]] = {
    "flag": (lambda value: type(value) is bool, "true or false"),
    "count": (lambda value: type(value) is int and value >= 0, "a whole number from 0"),
    "number": (lambda value: type(value) in (int, float), "a number"),
    "types": (_is_types, f"one or a list of {', '.join(sorted(TYPES))}"),
}
