"""Tables of the fields of a JSON Schema: name, type, bounds, default and description."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leyden.server.contract.json_pointer import split_pointer
from leyden.server.html import Html, Markdown, anchor, code, join, link, tag, text

_MAX_DEPTH = 6
_SHORT_PATTERN = 24  # the description explains a longer one better
_BRANCHES = ("allOf", "anyOf", "oneOf")

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a table of fields. `name` is dotted for a field of an inner object (`invoice.request`)."""

    name: str
    required: bool
    kind: Html
    description: str | None
    bounds: tuple[Html, ...]
    notes: tuple[Html, ...]
    decision: str | None


def badge(decision: str | None) -> Html:
    """The mark of a decision, with its name."""
    return tag("span", "Leyden's decision", decision and tag("b", decision), class_="decision")


class Fields:
    """Reads the schemas of one document and draws their tables.

    `linked` gathers the component objects that were linked to and not written out, so that the page can show each once.
    """

    def __init__(self, document: Mapping[str, Any], markdown: Markdown) -> None:
        self._document = document
        self._markdown = markdown
        self.linked: dict[str, None] = {}

    def resolve(self, node: Mapping[str, Any] | bool) -> Mapping[str, Any]:
        """The target of a `$ref`, with the keys beside it added. A node without a `$ref` is returned unchanged.

        A schema that is a boolean has no keys.
        """
        node = _keys(node)
        seen = 0
        while "$ref" in node and seen < _MAX_DEPTH:
            target: Any = self._document
            for step in split_pointer(str(node["$ref"]).removeprefix("#")):
                target = target.get(step, {}) if isinstance(target, Mapping) else {}
            node = {**_keys(target), **{key: value for key, value in node.items() if key != "$ref"}}
            seen += 1
        return node

    def body_schema(self, node: Mapping[str, Any]) -> Schema | None:
        """The schema of a request body or a response; None when it has no content."""
        media = next(iter(self.resolve(node).get("content", {}).values()), None)
        return None if media is None else media.get("schema", {})

    def variants(self, schema: Schema) -> list[tuple[str, Schema]]:
        """The variants of a schema, each with its name; a schema without variants, with its title."""
        whole = self.resolve(schema)
        branches = whole.get("oneOf") or whole.get("anyOf") or ()
        if len(branches) < 2 or "properties" in whole:
            return [(whole.get("title", ""), whole)]
        named = [(_title(branch, self.resolve(branch)), branch) for branch in branches]
        return [(name or f"Shape {index}", branch) for index, (name, branch) in enumerate(named, 1)]

    def table(self, schema: Schema, caption: str, *, sent: bool) -> Html | None:
        """The fields of an object; None when it declares none. `sent` is true for what the reader sends."""
        return self.draw(self._fields(schema, "", 0), caption, sent=sent)

    def draw(self, fields: Sequence[Field], caption: str, *, sent: bool) -> Html | None:
        """A table of fields under its caption; None when there are none.

        Of what readers send, the required fields are marked; of what they receive, those that may be missing.
        """
        if not fields:
            return None
        head = tag("tr", tag("th", "Field", scope="col"), tag("th", "Meaning", scope="col"))
        return tag(
            "table",
            tag("caption", caption),
            tag("colgroup", tag("col"), tag("col")),
            tag("thead", head, class_="unseen"),
            tag("tbody", *(self._row(field, sent) for field in fields)),
            class_="fields",
        )

    def kind(self, schema: Schema) -> Html:
        """The type in words: `integer or null`, `list of Charge`."""
        return join(dict.fromkeys(self._kinds(schema, 0)), " or ") or text("any value")

    def parameter(self, parameter: Mapping[str, Any]) -> Field:
        """A path, query or header parameter as a row of a table."""
        schema = parameter.get("schema", {})
        field = self._field(parameter["name"], schema, bool(parameter.get("required")))
        decision = parameter.get("x-decision") or field.decision
        description = parameter.get("description") or field.description
        return replace(field, description=description, decision=decision)

    def _row(self, field: Field, sent: bool) -> Html:
        must = tag("span", "required", class_="must") if field.required and sent else None
        if not (field.required or sent):
            must = tag("span", "can be absent", class_="bound")
        bounds = (tag("span", bound, class_="bound") for bound in field.bounds)
        return tag(
            "tr",
            tag(
                "th",
                code(field.name),
                tag("span", field.kind, class_="kind"),
                *bounds,
                must,
                scope="row",
            ),
            tag(
                "td",
                self._markdown.block(field.description, heading=6),
                tag("p", join(field.notes, " "), class_="notes") if field.notes else None,
                badge(field.decision) if field.decision else None,
            ),
        )

    def _fields(self, schema: Schema, prefix: str, depth: int) -> list[Field]:
        found: dict[str, Schema] = {}
        required: set[str] = set()
        for part in self._parts(schema, ("allOf",)):
            required.update(part.get("required", ()))
            for name, inner in _properties(part):
                found[name] = {**found.get(name, {}), **inner}
        # The branches of oneOf and anyOf restrict the fields beside them; only the fields that they add get rows.
        for part in self._parts(schema):
            for name, inner in _properties(part):
                found.setdefault(name, inner)
        fields: list[Field] = []
        for name, inner in found.items():
            fields.append(self._field(prefix + name, inner, name in required))
            if depth < _MAX_DEPTH:
                for suffix, nested in self._inner_objects(inner):
                    fields.extend(self._fields(nested, f"{prefix}{name}{suffix}.", depth + 1))
        return fields

    def _parts(self, schema: Schema, words: Sequence[str] = _BRANCHES, depth: int = 0) -> Iterator[Schema]:
        """The schema and the branches under `words` that it is made of, references followed."""
        whole = self.resolve(schema)
        yield whole
        if depth < _MAX_DEPTH:
            for word in words:
                for branch in whole.get(word, ()):
                    yield from self._parts(branch, words, depth + 1)

    def _inner_objects(self, schema: Schema | bool) -> Iterator[tuple[str, Schema]]:
        schema = _keys(schema)
        if "$ref" in schema:
            return
        if "properties" in schema:
            yield "", schema
        items = schema.get("items")
        if isinstance(items, Mapping) and "$ref" not in items and "properties" in items:
            yield "[]", items
        for word in _BRANCHES:
            for branch in schema.get(word, ()):
                yield from self._inner_objects(branch)

    def _field(self, name: str, schema: Schema, required: bool) -> Field:
        whole = self.resolve(schema)
        parts = list(self._parts(schema))
        description = whole.get("description") or next((p["description"] for p in parts if "description" in p), None)
        return Field(
            name,
            required,
            self.kind(schema),
            description,
            tuple(dict.fromkeys(bound for part in parts for bound in _bounds(part))),
            tuple(_notes(whole, parts)),
            whole.get("x-decision"),
        )

    def _kinds(self, schema: Schema, depth: int) -> Iterator[Html]:
        name = component_of(schema)
        whole = self.resolve(schema)
        if name is not None and "properties" in whole:
            self.linked[name] = None
            yield link(anchor("object", name), name)
        elif "const" in whole:
            yield code(json.dumps(whole["const"], ensure_ascii=False))
        elif depth < _MAX_DEPTH and any(word in whole for word in _BRANCHES):
            for word in _BRANCHES:
                for branch in whole.get(word, ()):
                    yield from self._kinds(branch, depth + 1)
        elif "type" in whole:
            types = whole["type"] if isinstance(whole["type"], list) else [whole["type"]]
            for kind in types:
                yield self._kind(kind, whole, depth)

    def _kind(self, kind: str, schema: Schema, depth: int) -> Html:
        if kind == "array" and isinstance(schema.get("items"), Mapping) and depth < _MAX_DEPTH:
            inner = join(dict.fromkeys(self._kinds(schema["items"], depth + 1)), " or ")
            return join(["list of ", inner]) if inner else text("list")
        if kind == "string" and "format" in schema:
            return text(str(schema["format"]))
        return text({"array": "list"}.get(kind, kind))


def _properties(part: Schema) -> Iterator[tuple[str, Schema]]:
    """The properties that are allowed; one whose schema is `false` is not."""
    for name, inner in part.get("properties", {}).items():
        if inner is not False:
            yield name, _keys(inner)


def _keys(schema: Schema | bool) -> Schema:
    """The keys of a schema; none of one that is a boolean."""
    return schema if isinstance(schema, Mapping) else {}


def component_of(schema: Schema | bool) -> str | None:
    """The name of the component that a `$ref` leads to; None without one."""
    reference = _keys(schema).get("$ref")
    return reference.rpartition("/")[2] if isinstance(reference, str) else None


def _title(schema: Schema, whole: Schema) -> str:
    title: str = whole.get("title") or component_of(schema) or ""
    return title


def _notes(whole: Schema, parts: Sequence[Schema]) -> Iterator[Html]:
    """Short sentences: what a valid value is, the default, and the values that count as not given."""
    expect = next((part["x-expect"] for part in parts if "x-expect" in part), None)
    if expect:
        yield join(["Expects ", str(expect).rstrip("."), "."])
    for part in parts:
        if "enum" in part:
            yield join(["One of ", join(map(_value, part["enum"]), ", "), "."])
        if "pattern" in part and "format" not in part and not expect and len(part["pattern"]) <= _SHORT_PATTERN:
            yield join(["Matches ", code(part["pattern"]), "."])
    if whole.get("default") is not None:
        yield join(["Default ", _value(whole["default"]), "."])
    absent = whole.get("x-absent")
    if absent:
        spelled = join(map(_value, absent), ", ")
        yield join([spelled, " count as not given." if len(absent) > 1 else " counts as not given."])
    if whole.get("deprecated"):
        yield text("Deprecated.")


def _value(value: Any) -> Html:
    return code(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False))


def _bounds(schema: Schema) -> Iterator[Html]:
    yield from _range(schema, "minimum", "maximum", "")
    if "exclusiveMinimum" in schema:
        yield text(f"more than {schema['exclusiveMinimum']}")
    if "exclusiveMaximum" in schema:
        yield text(f"less than {schema['exclusiveMaximum']}")
    if "multipleOf" in schema:
        yield text(f"a multiple of {schema['multipleOf']}")
    yield from _range(schema, "minLength", "maxLength", " character")
    yield from _range(schema, "minItems", "maxItems", " item")
    yield from _range(schema, "minProperties", "maxProperties", " field")
    if schema.get("uniqueItems"):
        yield text("no item twice")


def _range(schema: Schema, low: str, high: str, unit: str) -> Iterator[Html]:
    least, most = schema.get(low), schema.get(high)
    if unit and least == 0:
        least = None
    plural = "s" if unit and (most if most is not None else least) != 1 else ""
    if unit and most == 0:
        yield text("empty")
    elif least is not None and most is not None:
        yield text(f"exactly {least}{unit}{plural}" if least == most else f"{least} to {most}{unit}{plural}")
    elif most is not None:
        yield text(f"{'up to' if unit else 'at most'} {most}{unit}{plural}")
    elif least is not None:
        yield text(f"at least {least}{unit}{plural}")
