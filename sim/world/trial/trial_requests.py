"""Trial requests: whether the code serves an edited document, tried on a scratch world before the real one is built.

A document may allow what no code can read, or demand an answer that no code gives. So every operation is tried with
the examples of the document, with each field left out, and with each field replaced by a value of another type, or by
one at a bound of the document, wherever the document allows it. Then Charges are paid and expire, with callbacks.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any
from urllib.parse import urlencode

import orjson

from leyden.server.callbacks.deliveries import delivery_resource
from leyden.server.charges.lifecycle_checks import check_lifecycles
from leyden.server.contract.json_pointer import as_written, contract_error, quoted, split_pointer
from leyden.server.contract.load import named_overlays
from leyden.server.contract.schema_errors import first_error
from leyden.server.contract.served import check_served
from leyden.server.contract.types import IDEMPOTENCY_KEY, CallbackRule, Contract, Operation, Parameter
from leyden.server.contract.value_checks.read_values import check_texts
from leyden.server.contract.value_checks.sent_values import check_sent
from leyden.server.errors import ContractError
from leyden.server.http.number_range import GREATEST, LEAST
from leyden.server.http.validation import read_parameter
from leyden.server.store.store import Store
from leyden.world.config import SameContract, WorldConfig, body_type, packaged_contract
from leyden.world.loopback import Header, send_request
from leyden.world.trial.reserved_paths import check_reserved
from leyden.world.world import World

_START_MS = 1_893_456_000_000
_DAY_MS = 86_400_000
_HOOK = "http://trial.localhost/hook"
_VALUES: tuple[Any, ...] = (None, True, 7, -1, 10**18, 1.5, "", "7", "a text", [], {})
# Texts and numbers about the bounds that the document has somewhere, and about these: a request may allow what its
# answer does not.
_LENGTHS = (1, 256, 640, 1_001, 5_001)
_NUMBERS = (0, 2**31 - 1, 2**31, 10**11, 2**53, LEAST, GREATEST)
_DIGITS = ("1", "9", "1" + "0" * 9, "500000001", "9" * 19, "1" + "0" * 20)
_AMOUNTS = (*("1" + "0" * zeros for zeros in range(3, 9)), "500000000")  # of the bounds of the packaged document
_BODIES: Mapping[str, dict[str, Any]] = {
    "createCharge": {"amount": "1000", "description": "Trial"},
    "createStaticCharge": {"minAmount": "1000", "maxAmount": "9000", "description": "Trial"},
    "updateStaticCharge": {"description": "Trial"},
}
# The fields that code reads. A document that does not declare one may still allow it.
_FIELDS = dict.fromkeys((
    "amount", "minAmount", "maxAmount", "description", "internalId", "callbackUrl", "expiresIn", "allowedSlots",
    "successMessage", "identifier",
))  # fmt: skip
_FOR_PEOPLE = frozenset({"description", "summary", "example", "examples", "info", "tags", "servers"})
_MOST_PLACES = 3
_LOCATED = re.compile(r"[^\s:#]*#/")  # the start of an error with a JSON pointer
_RAISED = "a defect of Leyden, "  # in the detail of a 500; here the document has the defect
_QUERIES = {"requestInvoice": {"amount": "1000"}}
_PARTS = {"callbackUrl": ("http://trial.localhost/", ""), "identifier": ("", "@trial.example")}  # of a long value
# Of a query or header parameter
_TEXTS = (
    "1000", "-1", "0", "1", "2", "1001", "100000", "1.5", "9" * 20, f"{GREATEST}", f"{LEAST}", "", "x", "a b", "\0",
    "true", "2030-01-01T00:00:00.000Z", "2030-01-01", "00000000-0000-4000-8000-000000000000",
)  # fmt: skip
_LOG = logging.getLogger("leyden")  # of a failed request, which the error of the trial describes


def try_contract(contract: Contract, source: object = None) -> None:
    """Raise `ContractError` with the place in the document when a valid request cannot be served. `source` is the file
    of the document (None: the packaged one), which the error names with the overlays.

    A contract object that has passed is not tried again in this process: contracts are values and never change.
    """
    try:
        _try_object(SameContract(contract))
    except ContractError as error:
        files = [] if source is None or isinstance(source, Contract) else [f"{source}"]
        overlays = [named_overlays(contract.overlays)] if contract.overlays else []
        text = as_written(str(error), contract.document)
        if _LOCATED.match(text):  # with the file's name
            text = "".join([*files, text[text.index("#") :]]) if files else text
            raise ContractError("; this is the document after ".join([text, *overlays])) from None
        named = " with ".join(files + overlays)
        raise ContractError(f"{named}: {text}" if named else text) from None


@lru_cache(maxsize=4)
def _try_object(given: SameContract) -> None:
    contract = given.contract
    check_reserved(contract)
    check_lifecycles(contract)
    config = WorldConfig(contract, control=None, start_ms=_START_MS, mock_unbound=contract.mock_unbound)
    world = World(config, Store.memory())
    try:
        _LOG.addFilter(_silent)
        check_served(contract, world.service.handlers)
        _Trial(world, contract).run()
        check_texts(contract, world.service.handlers)
        check_sent(contract, packaged_contract("charges"), world.service.handlers)
    finally:
        _LOG.removeFilter(_silent)
        world.store.close()


def _silent(record: logging.LogRecord) -> bool:
    return False


@dataclass(slots=True)
class _Trial:
    world: World
    contract: Contract
    ids: dict[str, str] = field(default_factory=dict)  # the newest by the operation that created it
    requests: int = 0
    payment_hash: str = "x"  # of the newest invoice of a Static Charge

    def run(self) -> None:
        """Every operation, those that create first; then what follows without a request."""
        operations = sorted(self.contract.operations.values(), key=lambda one: one.operation_id not in _BODIES)
        for operation in operations:
            for body in self._bodies(operation):
                self._request(operation, body)
            body = next(self._bodies(operation), None)
            is_whole = operation.body is None or body is not None
            for parameter in operation.parameters if is_whole else ():
                for text in () if parameter.location == "path" else self._texts(operation, parameter):
                    self._request(operation, body, parameter, text)
        self._events()

    def _bodies(self, operation: Operation) -> Iterator[Any]:
        """Valid bodies for an operation; None when it has no body."""
        declared = operation.body
        if declared is None:
            yield None
            return
        bases = [*self._examples(operation), _BODIES.get(operation.operation_id, {}), {}]
        names = _FIELDS | dict.fromkeys(declared.properties)
        tried: set[bytes] = set()
        for base in bases:
            if not isinstance(base, dict):
                continue
            variants = [base, *({name: value for name, value in base.items() if name != left} for left in base)]
            variants += [{**base, name: value} for name in names for value in _VALUES]
            if base is bases[0] or base is _BODIES.get(operation.operation_id):  # an example may be served only once
                variants += [{**base, name: value} for name in names for value in self._extremes(name)]
            for body in variants:
                raw = orjson.dumps(body)
                if raw not in tried and declared.rule.validator.is_valid(body):
                    tried.add(raw)
                    yield body

    def _texts(self, operation: Operation, parameter: Parameter) -> Iterator[str]:
        """Valid texts of a query or header parameter: those of the document first."""
        item = self.contract.document["paths"][operation.path]
        nodes = [self._resolved(one) for level in (item[operation.method], item) for one in level.get("parameters", ())]
        node = next(one for one in nodes if (one["in"], one["name"]) == (parameter.location, parameter.name))
        named = (self._resolved(example)["value"] for example in node.get("examples", {}).values())
        schema = parameter.rule.schema
        values = [*([node["example"]] if "example" in node else named), *schema.get("examples", ())]
        values += [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ()), *_TEXTS]
        for value in values:
            text = orjson.dumps(value).decode() if not isinstance(value, str) else value
            if parameter.rule.validator.is_valid(read_parameter(parameter, text)):
                yield text

    def _extremes(self, name: str) -> Iterator[Any]:
        """Values of a field at the bounds of the document and beyond."""
        numbers = set(_bounds(self.contract.document, ("minimum", "maximum")))
        lengths = set(_bounds(self.contract.document, ("minLength", "maxLength")))
        yield from _DIGITS
        yield from _AMOUNTS if name.lower().endswith("amount") else ()
        beyond = (bound + 1 for bound in numbers if bound < GREATEST)
        yield from sorted({*_NUMBERS, *numbers, *beyond})
        start, end = _PARTS.get(name, ("", ""))
        for length in sorted({*_LENGTHS, *lengths, *(bound + 1 for bound in lengths)}):
            yield start + "x" * (length - len(start) - len(end)) + end

    def _examples(self, operation: Operation) -> list[Any]:
        node = self._resolved(self.contract.document["paths"][operation.path][operation.method]["requestBody"])
        media = next(iter(node["content"].values()))
        named = [self._resolved(example)["value"] for example in media.get("examples", {}).values()]
        return [media["example"], *named] if "example" in media else named

    def _resolved(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        if "$ref" not in node:
            return node
        found: Any = self.contract.document
        for token in split_pointer(node["$ref"][1:]):
            found = found[token]
        return dict(found)

    def _given(self, operation: Operation) -> tuple[dict[str, dict[str, str]], bool]:
        """A valid text for each required parameter of the query and the headers, by place and key; and whether there is
        one for each."""
        self.requests += 1
        given, is_whole = {"query": dict(_QUERIES.get(operation.operation_id, {})), "header": {}}, True
        for one in operation.parameters:
            if one.required and one.location != "path" and one.key not in given[one.location]:
                valid = next(self._texts(operation, one), None)
                key = f"trial-{self.requests}"  # a body of its own for each
                if one.key == IDEMPOTENCY_KEY and one.rule.validator.is_valid(key):
                    valid = key
                is_whole = is_whole and valid is not None
                given[one.location][one.key] = valid or ""
        return given, is_whole

    def _request(
        self, operation: Operation, body: Any, parameter: Parameter | None = None, text: str = "", *, user: str = "x"
    ) -> dict[str, Any]:
        """Send one request with its required parameters, and `text` as the value of this one. Returns the body of a
        success, and {} for another status."""
        header = self.world.service.pipeline.api_key_header
        media_type = body_type(self.contract, operation.method, operation.path)
        headers: tuple[Header, ...]
        headers = ((header, self.world.config.api_key.encode("latin-1")), (b"content-type", media_type))
        is_static = "tatic" in operation.operation_id or operation.errors_as == "lnurl"
        path = operation.path
        for one in operation.parameters:
            if one.location == "path":
                resource_id = self.ids.get("createStaticCharge" if is_static else "createCharge", "x")
                values = {"paymentHash": self.payment_hash, "user": user}
                path = path.replace(f"{{{one.name}}}", values.get(one.name, resource_id))
        given, is_whole = self._given(operation)
        if parameter is not None:
            given[parameter.location][parameter.key] = text
        query = f"?{urlencode(given['query'])}" if given["query"] else ""
        headers += tuple((key.encode(), one.encode("latin-1", "replace")) for key, one in given["header"].items())
        raw = b"" if body is None else orjson.dumps(body)
        answer = send_request(self.world.app, operation.method.upper(), path + query, headers, raw)
        value = orjson.loads(answer.body)
        sent = f"a request{query and f' with {query}'}" if body is None else f"the body {quoted(body)}"
        if parameter is not None and parameter.location == "header":
            sent = f"a request with the header {parameter.name}: {quoted(text)}"
        if answer.status == 400 and is_whole and _depth(body) <= self.contract.depth_limit:
            raise self._unserved(operation, f"{sent} is valid, but cannot be served: {_within(value['detail'])}")
        response = operation.responses.get(answer.status)
        rule = None if response is None else response.rule
        if answer.status >= 400 and rule is not None and (error := first_error(rule.validator, value)) is not None:
            what = _within(error.message)
            raise self._unserved(operation, f"{sent} gets an error that {answer.status} excludes: {what}")
        if answer.status >= 500:
            detail, is_raised, kind = value["detail"].partition(_RAISED)
            errors = "".join(
                f", {error['pointer']}: {_within(error['detail'])}"
                for error in value["errors"][:1]
                if error["pointer"] not in detail
            )
            why = f"its code does not expect it ({kind})" if is_raised else f"{detail}{errors}"
            raise self._unserved(operation, f"{sent} is valid, but cannot be served: {why}")
        if answer.status != operation.success.status or not isinstance(value, dict):
            return {}
        data = value.get("data")
        if operation.operation_id in _BODIES and isinstance(data, dict) and isinstance(data.get("id"), str):
            self.ids[operation.operation_id] = data["id"]
        return value

    def _events(self) -> None:
        """Of each kind a Charge is paid and another expires, with a callback."""
        for name in ("createCharge", "createStaticCharge"):
            operation = self.contract.operations.get(name)
            body: dict[str, Any] = {**_BODIES[name], "callbackUrl": _HOOK}
            if operation is None or operation.body is None or not operation.body.rule.validator.is_valid(body):
                continue
            large = ({**body, "amount": amount} for amount in reversed(_AMOUNTS if "amount" in body else ()))
            body = next(filter(operation.body.rule.validator.is_valid, large), body)
            for pays in (True, False):
                user = f"trial-{pays}".lower()
                full = {**body, "identifier": f"{user}@trial.example"}
                named = name == "createStaticCharge" and operation.body.rule.validator.is_valid(full)
                self._follow(operation, full if named else body, user, pays=pays)
            for rule in operation.callbacks:
                self._check_headers(rule)

    def _check_headers(self, rule: CallbackRule) -> None:
        """The headers of the callbacks that were sent are as the document says."""
        outbox = self.world.service.outbox
        for row in outbox.deliveries():
            shown = delivery_resource(row, outbox.signature)["attempts"] if row["rule"] == rule.name else ()
            for headers in (attempt["headers"] for attempt in shown):
                for index, declared in enumerate(rule.headers):
                    sent = headers.get(declared.key)
                    if sent is not None and not declared.rule.validator.is_valid(read_parameter(declared, sent)):
                        raise contract_error(
                            f"{rule.location}/post/parameters/{index}/schema",
                            f"{declared.name}: {quoted(sent)} is sent, which this schema refuses; allow it here",
                        )

    def _read(self, user: str) -> None:
        """Every operation that only reads, now that something has happened."""
        for operation in self.contract.operations.values():
            if operation.method == "get":
                self._request(operation, None, user=user)

    def _follow(self, operation: Operation, body: dict[str, Any], user: str, *, pays: bool) -> None:
        created = self._request(operation, body)
        invoice = self.contract.operations.get("requestInvoice")
        if operation.operation_id == "createCharge":
            request = created.get("data", {}).get("invoice", {}).get("request")
        else:
            request = None if invoice is None else self._request(invoice, None).get("pr")
            found = self.world.service.charges.charges.find(
                "static_charge_id", self.ids.get(operation.operation_id, "")
            )
            self.payment_hash = next((row["payment_hash"] for row in found), "x")
        self._read(user)
        world = self.world
        try:
            if pays and isinstance(request, str):
                with world.exclusive():
                    world.payments.pay(request)
            world.move(lambda clock: clock.advance(_DAY_MS))
        except Exception as error:
            raise self._unserved(operation, f"what follows it cannot be served: {error}") from None
        for row in world.service.outbox.rows:
            if "mismatch" in row:
                raise self._unserved(operation, f"what follows it cannot be served: {row['mismatch']}")
        self._read(user)

    def _unserved(self, operation: Operation, problem: str) -> ContractError:
        packaged = packaged_contract("charges").document
        places = list(islice(_differences(packaged, self.contract.document), _MOST_PLACES + 1))
        more = ", ..." if len(places) > _MOST_PLACES else ""
        named = ", ".join(places[:_MOST_PLACES])
        mend = f"it differs from the packaged document in {named}{more}" if places else "compare the packaged document"
        return contract_error(f"paths.{operation.path}.{operation.method}", f"{problem}; {mend}")


def _depth(value: Any) -> int:
    """The depth of nested arrays and objects."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if below is None else 1 + max(map(_depth, below), default=0)


def _within(text: str) -> str:
    """A text without its middle, if that is long: a value is at the beginning, and what is wrong with it at the end."""
    return text if len(text) <= 200 else f"{text[:60]}...{text[-80:]}"


def _bounds(node: Any, keywords: tuple[str, str]) -> Iterator[int]:
    """The numbers that a document has as these keywords; lengths beyond 100,000 are left out."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key in keywords and isinstance(value, int) and (key[3:] != "Length" or value < 100_000):
                yield value
            else:
                yield from _bounds(value, keywords)
    elif isinstance(node, list):
        for value in node:
            yield from _bounds(value, keywords)


def _differences(packaged: Any, edited: Any, place: str = "") -> Iterator[str]:
    """The places in which a document differs, except texts for people."""
    if type(packaged) is not type(edited) or not isinstance(packaged, Mapping | list):
        if packaged != edited:
            yield place
        return
    keys: Iterable[Any]
    if isinstance(packaged, list):
        keys = range(max(len(packaged), len(edited)))
        here, there = dict(enumerate(packaged)), dict(enumerate(edited))
    else:
        keys = dict.fromkeys([*packaged, *edited])
        here, there = dict(packaged), dict(edited)
    for key in keys:
        below = f"{place}.{key}" if place else str(key)
        if key not in there:
            yield f"{below} (left out)"
        elif key not in here:
            yield f"{below} (added)"
        elif key not in _FOR_PEOPLE or place.endswith("properties"):  # a field may have such a name
            yield from _differences(here[key], there[key], below)
