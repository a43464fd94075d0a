"""A hosted server under test: the requests of steps, the answers to which later steps refer, and the present lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from leyden.errors import ResponseLost
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.constants import API_KEY
from leyden.harness.control.documents import ControlList, control_lists, single_of
from leyden.harness.control.filters import Row, searched_texts
from leyden.harness.steps import StepImpossible
from leyden.harness.targets.hosted import HostedServer
from leyden.harness.targets.target import Response

RULE = "control-plane"
NO_RESPONSE = 0  # the status of a step whose response a service fault loses
# So that the request log has no reads of the harness.
_READER = {"Leyden-Client": "console"}
_PLACEHOLDER = re.compile(r"\{([A-Za-z][\w-]*(?:\.[\w-]+)*)\}")
_MOST_PAGES = 2_000

Observe = Callable[[str, str, Any, Response], None]


class Host:
    """One hosted server. `observe` is called with each request and its response."""

    def __init__(
        self,
        server: HostedServer,
        observe: Observe = lambda *_: None,
        *,
        is_reference: bool = False,
        key: str = API_KEY,
    ) -> None:
        self.server = server
        self.is_reference = is_reference  # of a server that is restarted or copied
        self._observe = observe
        self._key = key
        self.keys: dict[str, None] = {}  # that were created or replaced
        self.restores = 0
        self.answers: dict[str, list[Any]] = {}
        self._lists: dict[str, list[Row]] = {}
        self._details: dict[tuple[str, str], Row] = {}
        self._texts: dict[tuple[str, str], tuple[str, ...]] = {}
        self._children: dict[str, frozenset[str]] = {}
        self.created: dict[str, int] = {}  # the number of each id, in the order of creation
        self.present: dict[str, dict[str, None]] = {}  # the ids that were created and not removed, by path

    # Requests

    def ask(self, method: str, target: str, body: Any = None) -> Response:
        """Send one request of the harness itself."""
        response = self.server.ask(method, target, body, key=self._key, headers=_READER)
        self._observe(method, target, body, response)
        return response

    def read(self, target: str) -> Any:
        """The JSON of a GET that must succeed."""
        response = self.ask("GET", target)
        if response.status != 200:
            raise violation(f"GET {target}", "a response with the status 200", _shown(response))
        return response.json

    def accepted(self, method: str, target: str, body: Any = None) -> Any:
        """The JSON of a response of the harness itself that must be 200 or 201."""
        response = self.ask(method, target, body)
        if response.status not in (200, 201):
            raise violation(f"{method} {target}", "the status 200", _shown(response))
        self.forget()
        return response.json

    def of_key(self, key: str) -> Host:
        """The sandbox of another key on the same server. Its answers to the steps were the same."""
        other = Host(self.server, self._observe, key=key)
        other.answers = {label: list(found) for label, found in self.answers.items()}
        return other

    def with_key(self, key: str) -> Host:
        """This sandbox, whose key was not known before."""
        self._key = key
        return self

    def send(self, step: Mapping[str, Any]) -> None:
        """{"do": "send", "method", "target", "body"?, "headers"?, "as"?, "count"?, "status"?}: send a request, `count`
        times with another `{n}`. Every response must have the status; by default 200 or 201, and with 0 there must be
        none."""
        wanted = (step["status"],) if "status" in step else (200, 201)
        for number in range(step.get("count", 1)):
            values = {"n": str(number)}
            target, body = self.filled(step["target"], values), self.filled(step.get("body"), values)
            headers = dict(self.filled(step.get("headers", [])))
            try:
                response = self.server.ask(step["method"], target, body, key=self._key, headers=headers)
            except ResponseLost:
                if step.get("status") != NO_RESPONSE:
                    raise violation(f"{step['method']} {target}", "a response", "none") from None
                continue
            self._observe(step["method"], target, body, response)
            if response.status not in wanted:
                raise violation(f"{step['method']} {target}", f"the status {wanted[0]}", _shown(response))
            answer = response.json
            if target.endswith("/reset"):  # what it answered before is gone
                self.answers.clear()
                self.present.clear()
            if step["method"] == "DELETE":
                self.present.pop(target, None)
                self.present.get(target.rpartition("/")[0], {}).pop(target.rpartition("/")[2], None)
            if isinstance(answer, Mapping) and "keys" in answer:
                self.keys |= dict.fromkeys([*answer["keys"], *([body["replaces"]] if "replaces" in body else [])])
            self.answers.setdefault(step.get("as", ""), []).append(answer)
            data = answer.get("data", answer) if isinstance(answer, Mapping) else {}
            if isinstance(data, Mapping) and step["method"] == "POST" and isinstance(data.get("id"), str):
                self.created.setdefault(data["id"], len(self.created))
                self.present.setdefault(target, {})[data["id"]] = None
        self.forget()

    def filled(self, value: Any, values: Mapping[str, str] | None = None) -> Any:
        """A value with `{label.0.member}` replaced by that of an earlier answer. Raises `StepImpossible`."""
        if isinstance(value, str):
            return _PLACEHOLDER.sub(lambda found: self._value(found[1], values or {}), value)
        if isinstance(value, Mapping):
            return {name: self.filled(one, values) for name, one in value.items()}
        return [self.filled(one, values) for one in value] if isinstance(value, list) else value

    def _value(self, path: str, values: Mapping[str, str]) -> str:
        if path in values:
            return values[path]
        label, *members = (values.get(part, part) if part == "n" else part for part in path.split("."))
        found: Any = self.answers.get(label)
        try:
            for member in members:
                found = found[int(member)] if isinstance(found, list) else found[member]
        except (KeyError, IndexError, TypeError, ValueError):
            raise StepImpossible(path) from None
        if found is None or isinstance(found, list):
            raise StepImpossible(path)
        return str(found)

    def forget(self) -> None:
        """Discard the cached lists, because the state may have changed."""
        self._lists.clear()
        self._details.clear()
        self._texts.clear()
        self._children.clear()

    # Lists

    def pages(
        self, of: ControlList, path: str, query: Mapping[str, str], between: Callable[[], None] | None = None
    ) -> list[Row]:
        """All pages of a list, joined. `between` is called after the first one."""
        rows: list[Row] = []
        after: Mapping[str, str] = {}
        for number in range(_MOST_PAGES):
            target = with_query(path, {**query, **after})
            page = self.read(target)
            data = page[of.member] if of.member else page
            limit = int(query.get("limit", of.operation.parameters["limit"]["schema"]["default"]))
            if len(data) > limit:
                raise violation(f"GET {target}", f"at most {limit} rows", f"{len(data)} rows")
            if after and not data and not of.numbered and between is None:
                raise violation(f"GET {target}", "a row, because the page before had a next one", "none")
            rows += data
            if number == 0 and between is not None:
                between()
            if of.numbered:
                if not data:
                    return rows
                after = {"after": str(data[-1][of.numbered])}
                continue
            if page["next"] is None:
                return rows
            if len(data) < limit:
                raise violation(f"GET {target}", f"{limit} rows in a page with a next one", f"{len(data)} rows")
            after = {"after": page["next"]}
        raise violation(f"GET {path}", "an end of the list", f"{_MOST_PAGES} pages")

    def full(self, of: ControlList, path: str = "", **query: str) -> list[Row]:
        """Every row of a list, in the largest pages."""
        path = path or of.operation.path
        key = with_query(path, query)
        if key not in self._lists:
            most = str(of.operation.parameters["limit"]["schema"]["maximum"])
            self._lists[key] = self.pages(of, path, {"limit": most, **query})
        return self._lists[key]

    # What filters ask (`filters.Rows`)

    def rows(self, operation: str) -> Sequence[Row]:
        """Every row of a list."""
        return self.full(list_named(operation))

    def details(self, operation: str, row: Row) -> Row:
        """The answer of the operation that reads one row of a list."""
        one = single_of(list_named(operation))
        assert one is not None, operation
        name = str(row.get("id", row.get("name")))
        if (operation, name) not in self._details:
            path = re.sub(r"\{\w+\}", lambda _: quote(name, safe=""), one.path)
            self._details[operation, name] = self.read(path)
        return self._details[operation, name]

    def lower_texts(self, operation: str, row: Row) -> tuple[str, ...]:
        """The texts of a row of a list in which a search looks, in lower case."""
        key = operation, str(row.get("id", row.get("name")))
        if key not in self._texts:
            self._texts[key] = tuple(text.lower() for text in searched_texts(self, operation, row))
        return self._texts[key]

    def children(self, static_id: str) -> frozenset[str]:
        """The ids of the Charges of a Static Charge, as the charge service lists them."""
        if static_id not in self._children:
            response = self.ask("GET", f"/v0/static-charges/{quote(static_id, safe='')}/charges?limit=1000")
            rows = response.json["data"] if response.status == 200 else []
            self._children[static_id] = frozenset(row["id"] for row in rows)
        return self._children[static_id]


def list_named(operation: str) -> ControlList:
    """The list of the document with this operationId. Raises `StepImpossible` for another."""
    found = next((one for one in control_lists() if one.name == operation), None)
    if found is None:
        raise StepImpossible(operation)
    return found


def with_query(path: str, query: Mapping[str, str]) -> str:
    """A path with a query."""
    return f"{path}?{urlencode(query, quote_via=quote)}" if query else path


def violation(where: str, expected: Any, observed: Any) -> ContractViolation:
    """A violation of what the document of the control plane says."""
    return ContractViolation("lifecycle", RULE, where, expected, observed)


def _shown(response: Response) -> str:
    return f"{response.status} {response.body[:200].decode('utf-8', 'replace')}"
