"""The OpenAPI 3.1 and JSON Schema 2020-12 keywords that a document may use, and where.

A form says what may stand under a key: `text flag count number types any`, the name of an object kind (`schema?` also
takes true or false), `{form}` a map, `[form]` a list, or `x`: a value that `extensions.schema.json` describes under
the key's own name. `!` after a key means required.
"""

from __future__ import annotations

from collections.abc import Mapping

OBJECTS: Mapping[str, Mapping[str, str]] = {
    "document": {
        "openapi!": "text", "info!": "info", "jsonSchemaDialect": "text", "servers": "[server]", "tags": "[tag]",
        "security": "[{[text]}]", "paths!": "{pathItem}", "components!": "components", "externalDocs": "externalDocs",
        "x-limits!": "x", "x-payers": "x", "x-undeclared-body": "x",
    },
    "info": {
        "title!": "text", "version!": "text", "summary": "text", "description": "text", "termsOfService": "text",
        "contact": "contact", "license": "license",
    },
    "contact": {"name": "text", "url": "text", "email": "text"},
    "license": {"name!": "text", "identifier": "text", "url": "text"},
    "server": {"url!": "text", "description": "text"},
    "tag": {"name!": "text", "description": "text", "externalDocs": "externalDocs"},
    "externalDocs": {"url!": "text", "description": "text"},
    "components": {
        "schemas": "{schema}", "responses": "{response}", "parameters": "{parameter}", "examples": "{example}",
        "requestBodies": "{requestBody}", "headers": "{header}", "securitySchemes": "{securityScheme}",
        "links": "{link}", "callbacks": "{callback}",
    },
    "pathItem": {
        "summary": "text", "description": "text", "parameters": "[parameter]", "get": "operation",
        "post": "operation", "put": "operation", "patch": "operation", "delete": "operation",
    },
    "operation": {
        "operationId!": "text", "summary": "text", "description": "text", "tags": "[text]", "deprecated": "flag",
        "externalDocs": "externalDocs", "parameters": "[parameter]", "requestBody": "requestBody",
        "responses!": "{response}", "callbacks": "{callback}", "security": "[{[text]}]",
        "x-basis!": "x", "x-decision": "x", "x-errors-as": "x", "x-has-effect": "x",
        "x-other-names": "x",
    },
    "callbackItem": {"summary": "text", "description": "text", "post!": "callbackPost", "x-delivery!": "x"},
    "callbackPost": {
        "operationId": "text", "summary": "text", "description": "text", "tags": "[text]",
        "parameters": "[parameter]", "requestBody!": "requestBody", "responses!": "{response}", "security": "[any]",
        "x-basis": "x", "x-decision": "x",
    },
    "parameter": {
        "name!": "text", "in!": "text", "description": "text", "required": "flag", "deprecated": "flag",
        "schema!": "schema", "example": "any", "examples": "{example}", "x-basis": "x", "x-decision": "x",
    },
    "header": {
        "description": "text", "required": "flag", "deprecated": "flag", "schema!": "schema", "example": "any",
        "examples": "{example}",
    },
    "requestBody": {"description": "text", "required": "flag", "content!": "{mediaType}"},
    "mediaType": {"schema!": "schema", "example": "any", "examples": "{example}"},
    "response": {"description!": "text", "headers": "{header}", "content": "{mediaType}", "links": "{link}"},
    "example": {"summary": "text", "description": "text", "value!": "any"},
    "link": {"operationId!": "text", "parameters": "{any}", "requestBody": "any", "description": "text"},
    "securityScheme": {"type!": "text", "name": "text", "in": "text", "description": "text"},
    "schema": {
        "$ref": "text", "$comment": "text", "title": "text", "description": "text", "default": "any",
        "deprecated": "flag", "readOnly": "flag", "writeOnly": "flag", "examples": "[any]",
        "type": "types", "enum": "[any]", "const": "any",
        "multipleOf": "number", "minimum": "number", "maximum": "number", "exclusiveMinimum": "number",
        "exclusiveMaximum": "number", "minLength": "count", "maxLength": "count", "pattern": "text", "format": "text",
        "items": "schema?", "prefixItems": "[schema]", "contains": "schema", "minContains": "count",
        "maxContains": "count", "minItems": "count", "maxItems": "count", "uniqueItems": "flag",
        "properties": "{schema?}", "patternProperties": "{schema?}", "additionalProperties": "schema?",
        "unevaluatedProperties": "schema?", "unevaluatedItems": "schema?", "propertyNames": "schema",
        "required": "[text]", "dependentRequired": "{[text]}", "dependentSchemas": "{schema}",
        "minProperties": "count", "maxProperties": "count",
        "allOf": "[schema]", "anyOf": "[schema]", "oneOf": "[schema]", "not": "schema",
        "if": "schema", "then": "schema", "else": "schema",
        "x-absent": "x", "x-expect": "x", "x-other-names": "x", "x-basis": "x", "x-decision": "x", "x-lifecycle": "x",
    },
}  # fmt: skip


_LOCAL = "references are local; write $ref: '#/components/...'"
_ONE_DIALECT = "every schema is JSON Schema 2020-12"
_PLAIN_TEXT = "parameters are read as plain texts"
_ONLY_APIKEY = "only an apiKey in a header is served"
_UNCHECKED = "the content of texts is not checked; write a pattern"

# Keywords of the standards that are not supported, by object kind, each with what to do instead.
UNSERVED: Mapping[str, Mapping[str, str]] = {
    "document": {"webhooks": "describe them as callbacks of the operation that registers the URL"},
    "components": {"pathItems": "write the path under paths"},
    "pathItem": {
        "$ref": "write the path out here",
        "servers": "servers stand at the document's root only",
        "head": "HEAD is answered from get",
        "options": "OPTIONS is answered from the methods there are",
        "trace": "TRACE is not served",
    },
    "operation": {"servers": "servers stand at the document's root only"},
    "callbackItem": {
        **dict.fromkeys(("get", "put", "patch", "delete", "head", "options", "trace"), "callbacks are sent with POST"),
        "parameters": "write them under post",
        "servers": "the expression is the whole URL",
        "$ref": "write the callback out here",
    },
    "callbackPost": {
        "callbacks": "a receiver gets no further URL",
        "servers": "the expression is the whole URL",
    },
    "parameter": {
        "style": _PLAIN_TEXT,
        "explode": _PLAIN_TEXT,
        "allowReserved": _PLAIN_TEXT,
        "allowEmptyValue": "write a schema that allows the empty text",
        "content": "give the parameter a schema",
    },
    "header": {"style": _PLAIN_TEXT, "explode": _PLAIN_TEXT, "content": "give the header a schema"},
    "mediaType": {"encoding": "only JSON bodies are read"},
    "example": {"externalValue": "write the value here"},
    "link": {
        "operationRef": "name the operation by operationId; links do not leave the document",
        "server": "links do not leave the service",
    },
    "securityScheme": {
        "scheme": _ONLY_APIKEY,
        "bearerFormat": _ONLY_APIKEY,
        "flows": _ONLY_APIKEY,
        "openIdConnectUrl": _ONLY_APIKEY,
    },
    "server": {"variables": "write the whole URL"},
    "schema": {
        "nullable": "that is OpenAPI 3.0; write type: [..., 'null']",
        "example": "in a schema that is OpenAPI 3.0; write examples: [...]",
        "discriminator": "write a const in each branch of the oneOf",
        "xml": "only JSON is served",
        "externalDocs": "say it in the description",
        "$schema": _ONE_DIALECT,
        "$vocabulary": _ONE_DIALECT,
        "$id": _LOCAL,
        "$anchor": _LOCAL,
        "$dynamicRef": _LOCAL,
        "$dynamicAnchor": _LOCAL,
        "$defs": "move the schema to components.schemas",
        "definitions": "move the schema to components.schemas",
        "dependencies": "write dependentRequired or dependentSchemas",
        "additionalItems": "write items beside prefixItems",
        "contentEncoding": _UNCHECKED,
        "contentMediaType": _UNCHECKED,
        "contentSchema": _UNCHECKED,
    },
}

# The section of `components` for each kind that a $ref may lead to.
SECTIONS = {
    "schema": "schemas", "response": "responses", "parameter": "parameters", "example": "examples",
    "requestBody": "requestBodies", "header": "headers", "securityScheme": "securitySchemes", "link": "links",
    "callback": "callbacks",
}  # fmt: skip
TYPES = frozenset({"null", "boolean", "object", "array", "number", "integer", "string"})
# The formats that jsonschema-rs checks; it ignores any other.
FORMATS = frozenset({
    "date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
    "uri-reference", "iri", "iri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex",
})  # fmt: skip


def fields(kind: str) -> dict[str, str]:
    """Key -> form for an object kind, without the marks of what is required."""
    return {key.rstrip("!"): form for key, form in OBJECTS[kind].items()}


def required(kind: str) -> tuple[str, ...]:
    """The keys an object of this kind must have."""
    return tuple(key[:-1] for key in OBJECTS[kind] if key.endswith("!"))
