"""The examples of an operation on the documentation page: a curl command and the response."""

from __future__ import annotations

import re
from collections.abc import Mapping
from shlex import quote
from typing import Any
from urllib.parse import quote as percent_encode
from urllib.parse import urlencode

from leyden.server.contract.types import Contract, Operation
from leyden.server.docs.fields import Fields, component_of
from leyden.server.html import Html, coloured, join, json_source, tag

_MAX_DEPTH = 8
_PLAIN_URL = re.compile(r"[A-Za-z0-9/_.~%?=&+:,-]*")
_BY_FORMAT = {
    "uuid": "8f14e45f-ceea-467f-a8b5-91f3d5a1c0de",
    "date-time": "2030-01-01T09:00:00.000Z",
    "date": "2030-01-01",
    "uri": "https://example.com/",
    "email": "ana@example.com",
}


class Examples:
    """Finds the examples in the document, and makes one from the schema where there is none."""

    def __init__(self, contract: Contract, fields: Fields) -> None:
        self._contract = contract
        self._fields = fields
        self._found: dict[str, Any] = {}
        for operation in contract.operations.values():
            written = contract.document["paths"][operation.path][operation.method.lower()]
            for response in written.get("responses", {}).values():
                for _, value in self.of_body(response):
                    self._collect(self._fields.body_schema(response) or {}, value)

    @property
    def base(self) -> str:
        """The base URL in commands: the server of the document, or a shell variable when that is relative."""
        servers = self._contract.document.get("servers") or [{}]
        url = str(servers[0].get("url", ""))
        return url.rstrip("/") if re.match(r"(?i:https?)://[^\s'\"$`\\]+$", url) else "$BASE_URL"

    def of_body(self, node: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """The examples of a request body or a response, each with a title; empty when it has no content."""
        media = next(iter(self._fields.resolve(node).get("content", {}).values()), None)
        if media is None:
            return []
        if "example" in media:
            return [("", media["example"])]
        named = {name: self._fields.resolve(example) for name, example in media.get("examples", {}).items()}
        if named:
            return [(example.get("summary", name), example.get("value")) for name, example in named.items()]
        return [("", self.sample(media.get("schema", {})))]

    def of_object(self, name: str) -> Any:
        """An example of a component object: from the example of a response, or made from its schema."""
        return self._found[name] if name in self._found else self.sample({"$ref": f"#/components/schemas/{name}"})

    def sample(self, schema: Mapping[str, Any] | bool, depth: int = 0) -> Any:
        """A value made from the schema: its example, its default, or the simplest value of its type."""
        whole = self._fields.resolve(schema)
        if whole.get("examples"):
            return whole["examples"][0]
        for word in ("const", "default"):
            if word in whole:
                return whole[word]
        if whole.get("enum"):
            return whole["enum"][0]
        if depth >= _MAX_DEPTH:
            return None
        example: dict[str, Any] = {}
        for branch in whole.get("allOf", ()):
            value = self.sample(branch, depth + 1)
            example |= value if isinstance(value, dict) else {}
        for name, inner in whole.get("properties", {}).items():
            example[name] = self.sample(inner, depth + 1)
        if example:
            return example
        for word in ("oneOf", "anyOf"):
            for branch in whole.get(word, ()):
                return self.sample(branch, depth + 1)
        return self._simplest(whole, depth)

    def _simplest(self, schema: Mapping[str, Any], depth: int) -> Any:
        types = schema.get("type", "null")
        kind = types if isinstance(types, str) else next((name for name in types if name != "null"), "null")
        if kind == "string":
            return _BY_FORMAT.get(schema.get("format", ""), "text")
        if kind == "array":
            items = schema.get("items")
            return [self.sample(items, depth + 1)] if isinstance(items, Mapping) else []
        plain: dict[str, Any] = {"integer": schema.get("minimum", 1), "number": 1, "boolean": True, "object": {}}
        return plain.get(kind)

    def _collect(self, schema: Mapping[str, Any] | bool, value: Any) -> None:
        """Store the parts of an example by the names of the components that describe them."""
        whole = self._fields.resolve(schema)
        if isinstance(value, dict):
            name = component_of(schema)
            if name is not None:
                self._found.setdefault(name, value)
            for key, inner in whole.get("properties", {}).items():
                if key in value:
                    self._collect(inner, value[key])
        elif isinstance(value, list) and isinstance(whole.get("items"), Mapping):
            for item in value:
                self._collect(whole["items"], item)

    def parameters(self, operation: Operation) -> list[Mapping[str, Any]]:
        """The operation's parameters from the document, those of its path first."""
        item = self._contract.document["paths"][operation.path]
        listed = [*item.get("parameters", ()), *item[operation.method.lower()].get("parameters", ())]
        return [self._fields.resolve(parameter) for parameter in listed]

    def command(self, operation: Operation, body: Any) -> Html:
        """The operation as a curl command. `body` is None when it sends none."""
        path, query, headers = operation.path, {}, []
        for parameter in self.parameters(operation):
            shown, value = self.parameter_value(parameter)
            if parameter["in"] == "path":
                path = path.replace("{" + parameter["name"] + "}", percent_encode(str(value), safe="@"))
            elif parameter["in"] == "query" and (shown or parameter.get("required")):
                query[parameter["name"]] = _plain(value)
            elif parameter["in"] == "header" and (shown or parameter.get("required")):
                headers.append(f"{parameter['name']}: {_plain(value)}")
        rest = path + (f"?{urlencode(query)}" if query else "")
        target = f'"{self.base}{rest}"' if _PLAIN_URL.fullmatch(rest) else f'"{self.base}"{quote(rest)}'
        verb = "" if operation.method.upper() == "GET" else f"-X {operation.method.upper()} "
        lines: list[Html] = [join([tag("b", "curl"), f" {verb}{target}"])]
        if operation.secured:
            lines.append(join([f'  -H "{self._contract.api_key_header}: $API_KEY"']))
        lines.extend(join([f"  -H {quote(header)}"]) for header in headers)
        if body is not None and operation.body is not None:
            lines.append(join([f'  -H "Content-Type: {operation.body.media_types[0]}"']))
            lines.append(join(["  -d '", coloured(json_source(body).replace("'", "'\\''")), "'"]))
        return join(lines, " \\\n")

    def parameter_value(self, parameter: Mapping[str, Any]) -> tuple[bool, Any]:
        """Whether the document has an example for the parameter, and the value to show."""
        if "example" in parameter:
            return True, parameter["example"]
        for example in parameter.get("examples", {}).values():
            return True, self._fields.resolve(example).get("value")
        return False, self.sample(parameter.get("schema", {}))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json_source(value)
