"""Obligations of HTTP: methods, paths, ids, API keys and the headers of requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from json import dumps
from urllib.parse import quote

from leyden.harness.obligations.obligation import (
    JSON_TYPE,
    KEY,
    DocumentedOperation,
    Obligation,
    document_of,
    operations_of,
    request_of,
    shown,
    target_of,
)
from leyden.harness.obligations.values.grammars import (
    JSON_MEDIA_TYPE,
    OTHER_PARAMETER,
    WEIGHTED,
    header_texts,
    is_header_value,
)
from leyden.harness.obligations.values.patterns import one_of_each, pattern_variants
from leyden.harness.obligations.values.texts import ACCEPTS, CONTENT_TYPES, JSON_TEXTS, NAMES_OF_ANY_KIND
from leyden.harness.steps import Step
from leyden.harness.targets.target import InProcess

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "get")
_USERS = ("ana", "Ana", "ANA", "ana%20", "%20ana", "an", "anaa", "ana%40shop.example", "ana@shop.example", "%61na",
          "ana%00", "nobody", "ben", "ana.", "*")  # fmt: skip
_ID_FORMS = {
    "unknown": "00000000-0000-4000-8000-000000000000",
    "nil": "00000000-0000-0000-0000-000000000000",
    "number": "17",
    "blank": "%20",
    "null-character": "%00",
    "encoded-slash": "a%2Fb",
    "percent": "%25",
    "not-utf-8": "%ff",
}


def method_obligations() -> Iterator[Obligation]:
    """Every method on every path: the operation, HEAD beside GET, OPTIONS, or 405 with Allow."""
    paths: dict[str, list[DocumentedOperation]] = {}
    for one in operations_of():
        paths.setdefault(one.path, []).append(one)
    for path, operations in paths.items():
        for method in _METHODS:
            match = next((one for one in operations if one.method == method.replace("HEAD", "GET")), None)
            for kind, headers in (("own-key", [KEY]), ("no-key", [])):
                step = request_of(match or operations[0], method=method, headers=list(headers))
                if method in {"POST", "PATCH", "PUT"}:
                    step["headers"] = [*headers, JSON_TYPE]
                else:
                    step.pop("body", None)
                yield Obligation(f"{method} {path}", f"method:{kind}", "", f"#/paths ({path})", (step,))
    for path in ("/v0", "/v1/charges", "/v0/Charges", "/v0/charges/", "/v0//charges", "//v0/charges", "/v0/charge",
                 "/v0/charges/{c1}/", "/v0/charges/{c1}/x", "/v0/charges%2F{c1}", "/lnurlp", "/lnurlp/",
                 "/.well-known/lnurlp", "/.well-known/lnurlp/", "/lnurlp/{s1}/invoice/", "/v0/wallet/x", "/v0/wallets",
                 "/v0/static_charges", "/v0/staticcharges/{s1}", "/V0/wallet", "/v0/wallet;x=1",
                 "/v0/charges%0A", "/v0/wallet%0A", "/lnurlp/{s1}/invoice%0A", "/v0/static-charges/{s1}/charges%0A",
                 "/v0/wallet%00", "/v0/wallet%20", "/v0/wallet%3F"):  # fmt: skip
        for method in ("GET", "POST", "HEAD", "OPTIONS"):
            asked: Step = {"do": "request", "method": method, "target": path, "headers": [KEY]}
            yield Obligation(f"{method} {path}", "path:unknown", "", "the harness's list of paths", (asked,))
    for path in ("/v0/%63harges", "/v0/charges?", "/v0/w%61llet", "/v0/charges/{c1}?"):
        asked = {"do": "request", "method": "GET", "target": path, "headers": [KEY]}
        yield Obligation(f"GET {path}", "path:encoded", "", "the harness's list of paths", (asked,))


def id_obligations() -> Iterator[Obligation]:
    """Ids that do not exist, that are of another kind or of another project, and near misses of one that exists."""
    pattern = document_of()["components"]["schemas"]["Id"]["pattern"]
    for one in operations_of():
        for parameter in [each for each in one.parameters if each["in"] == "path"]:
            name = parameter["name"]
            place, source = f"{one.name} path.{name}", f"{one.source}/parameters#{name}"
            forms = dict(_ID_FORMS)
            forms |= {f"of {label}": f"{{{label}}}" for label in ("c1", "s1", "c11", "c2", "s2", "s3", "c21", "s21")}
            forms |= {f"hash of {label}": f"{{{label}.hash}}" for label in ("c1", "c11", "c12", "c13", "c21")}
            forms |= {"longer": "{s1}0", "prefixed": "0{s1}", "braces": "%7B{s1}%7D", "blank-after": "{s1}%20",
                      "line-end": "{s1}%0A", "urn": "urn:uuid:{s1}", "longer-c1": "{c1}0", "line-end-c1": "{c1}%0A",
                      "longer-hash": "{c11.hash}0", "hash-blank": "{c11.hash}%20"}  # fmt: skip
            if name == "user":
                forms = {text: text for text in _USERS}
            for kind, text in forms.items():
                yield Obligation(place, "id", kind, source, (request_of(one, target_of(one, **{name: text})),))
            if name == "id":
                variants = pattern_variants(pattern) if one.name == "getChargeDetails" else one_of_each(pattern)
                for kind, text in variants:
                    if text and "/" not in text and text not in {".", ".."}:
                        target = target_of(one, **{name: quote(text, safe="")})
                        yield Obligation(place, kind, shown(text), source, (request_of(one, target),))


def key_obligations() -> Iterator[Obligation]:
    """Every operation with the other project's key, without one, and with near misses of the right one."""
    keys = InProcess.keys
    right = keys["default"]
    wrong = {
        "other-case": right.swapcase(), "first-upper": right.title(), "shorter": right[:-1], "longer": f"{right}n",
        "prefix": right[:1], "blank-before": f" {right}", "blank-after": f"{right} ", "tab": f"{right}\t",
        "quoted": f'"{right}"', "bearer": f"Bearer {right}", "both": f"{right}, {keys['second']}", "empty": "",
        "comma": f"{right},", "star": "*", "null": "null", "not-ascii": "l\u00e9yden", "project": "default",
        "wildcard": f"{right[:-1]}%",
    }  # fmt: skip
    for one in operations_of():
        asked = partial(_keyed, one)

        for kind, text in wrong.items():
            yield asked(kind, [["apikey", text]])
        yield asked("absent", [])
        yield asked("right", [KEY])
        yield asked("other-project", [["apikey", "{second}"]])
        yield asked("name-in-capitals", [["APIKEY", "{key}"]])
        yield asked("repeated", [KEY, KEY])
        yield asked("repeated-other", [KEY, ["apikey", "{second}"]])
        yield asked("right-then-wrong", [KEY, ["apikey", "x"]])
        for name in ("Authorization", "X-Api-Key", "api-key", "x-apikey", "apikeys", "Cookie"):
            yield asked(f"in {name}", [[name, "{key}"]])
            yield asked(f"right and in {name}", [KEY, [name, "x"]])
        yield asked("in Authorization as Bearer", [["Authorization", "Bearer {key}"]])
        yield asked("in the query", [], f"{target_of(one)}{'&' if '?' in target_of(one) else '?'}apikey={right}")
        if one.secured and one.body is not None:
            step = request_of(one, headers=[JSON_TYPE], raw="{")
            yield replace(asked("absent, no JSON", []), steps=(step,))


def _keyed(one: DocumentedOperation, kind: str, headers: list[list[str]], target: str = "") -> Obligation:
    rest = [] if one.body is None else [JSON_TYPE]
    source = "#/components/securitySchemes/apikey"
    step = request_of(one, target, headers=[*headers, *rest])
    return Obligation(f"{one.name} header.apikey", "key", kind, source, (step,))


def header_obligations() -> Iterator[Obligation]:
    """Accept, Content-Type, Idempotency-Key and JSON texts of every operation."""
    for one in operations_of():
        base = [KEY] if one.secured else []
        for text in dict.fromkeys((*ACCEPTS, *header_texts(WEIGHTED))):
            headers = [*base, *([] if one.body is None else [JSON_TYPE]), ["Accept", text]]
            yield Obligation(f"{one.name} header.Accept", "accept", shown(text), one.source,
                             (request_of(one, headers=headers),))  # fmt: skip
        headers = [*base, *([] if one.body is None else [JSON_TYPE]), ["Accept", "text/html"], ["Accept", "*/*;q=0.1"]]
        yield Obligation(f"{one.name} header.Accept", "repeated", "", one.source, (request_of(one, headers=headers),))
        for text in dict.fromkeys((*CONTENT_TYPES, *header_texts(JSON_MEDIA_TYPE, OTHER_PARAMETER))):
            headers = [*base, ["Content-Type", text]]
            yield Obligation(f"{one.name} header.Content-Type", "content-type", shown(text), one.source,
                             (request_of(one, headers=headers),))  # fmt: skip
        headers = [*base, ["Content-Type", f"\t{JSON_TYPE[1]} "], ["Accept", " application/json\t"]]
        yield Obligation(f"{one.name} headers", "blanks", "", one.source, (request_of(one, headers=headers),))
        yield Obligation(f"{one.name} header.Content-Type", "absent", "", one.source, (request_of(one, headers=base),))
        members = '"x": 0' if one.body is None or one.method == "PATCH" else _members(one)
        for kind, template in JSON_TEXTS.items():
            headers = [*base, JSON_TYPE]
            step = request_of(one, headers=headers, raw=template.format(members))
            found = Obligation(f"{one.name} body", f"json:{kind}", "", one.source, (step,))
            yield found
            if kind in NAMES_OF_ANY_KIND:
                yield replace(found, case="strict", overlays=("strict",))
        limits = document_of()["x-limits"]
        for offset in (-1, 0, 1):
            depth = limits["depth"] + offset - 1
            step = request_of(one, headers=[*base, JSON_TYPE], raw=f'{{{members}, "deep": {"[" * depth}{"]" * depth}}}')
            yield Obligation(f"{one.name} body", f"depth{offset:+d}", "", "#/x-limits/depth", (step,))
            # More brackets than levels, before and after the deepest one.
            deep = "[" * depth + "]" * depth
            for case, text in (
                ("after", f'"deep": {deep}, "y": [{{}}]'),
                ("before", f'"y": [[], {{}}], "deep": {deep}'),
            ):
                step = request_of(one, headers=[*base, JSON_TYPE], raw=f"{{{members}, {text}}}")
                place, source = f"{one.name} body", "#/x-limits/depth"
                yield Obligation(place, f"depth{offset:+d}", f"others {case} it", source, (step,))
            raw = f'{{{members}, "long": ""}}'
            raw = raw.replace('"long": ""', f'"long": "{"x" * (limits["bodyBytes"] + offset - len(raw))}"')
            step = request_of(one, headers=[*base, JSON_TYPE], raw=raw)
            yield Obligation(f"{one.name} body", f"bytes{offset:+d}", "", "#/x-limits/bodyBytes", (step,))
        yield from _idempotency_keys(one, base)


def _members(one: DocumentedOperation) -> str:
    return dumps(dict(one.example))[1:-1]


def _idempotency_keys(one: DocumentedOperation, base: list[list[str]]) -> Iterator[Obligation]:
    """The grammar of Idempotency-Key, and the header at operations that do not declare it."""
    place = f"{one.name} header.Idempotency-Key"
    typed = [*base, *([] if one.body is None else [JSON_TYPE])]
    declared = next((each for each in one.parameters if each["name"].lower() == "idempotency-key"), None)
    variants = [("undeclared", "k1"), ("undeclared", "a b")]
    if declared is not None:
        variants = [*pattern_variants(declared["schema"]["pattern"])]
    for kind, text in variants:
        if not is_header_value(text):
            continue
        key = f"{text}"
        steps = [request_of(one, headers=[*typed, ["Idempotency-Key", key]]) for _ in range(2)]
        yield Obligation(place, kind, shown(text), one.source, tuple(steps))
    if declared is None:
        return
    other = {**one.example, "description": "another"}

    def keyed(*names: str, body: object = None, by: str = "{key}") -> Step:
        headers = [["apikey", by], JSON_TYPE, *(["Idempotency-Key", name] for name in names)]
        return request_of(one, headers=headers, body=dict(one.example) if body is None else body)

    first = f"first-{one.name}"
    extra = {**one.example, "colour": "blue"}
    texts: dict[str, tuple[Step, ...]] = {
        "same body": (keyed(first), keyed(first), keyed(first)),
        "other body": (keyed(first), keyed(first, body=other), keyed(first)),
        "other order": (keyed(first), keyed(first, body=dict(reversed([*one.example.items()])))),
        "unknown field more": (keyed(first), keyed(first, body=extra)),
        "default spelled out": (keyed(first), keyed(first, body={**one.example, "internalId": None})),
        "blanks around": (keyed(first), keyed(f" {first}\t"), keyed(f"{first} ", body=other)),
        "other case": (keyed(first), keyed(first.upper()), keyed(first.upper(), body=other)),
        "longer": (keyed(first), keyed(f"{first}x", body=other), keyed(first[:-1], body=other)),
        "other project": (keyed(first), keyed(first, by="{second}"), keyed(first, body=other, by="{second}")),
        "repeated": (keyed("k1", "k2"), keyed("k1", "k1")),
        "after an error": (keyed("e1", body={}), keyed("e1"), keyed("e1")),
        "after another key": (keyed("k3"), keyed("k4", body=other), keyed("k3"), keyed("k4", body=other)),
        "a day later": (keyed("k5"), {"do": "advance", "by": 86_400_000 - 1}, keyed("k5"), {"do": "advance", "by": 1},
                        keyed("k5"), keyed("k5", body=other)),
    }  # fmt: skip
    for case, asked in texts.items():
        yield Obligation(place, "replay", case, one.source, asked, setup="empty")
