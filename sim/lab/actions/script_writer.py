"""Scripts: the Python that creates a sandbox again, written from its action log."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import orjson

from leyden.callbacks.receivers import is_built_in
from leyden.callbacks.replies import Reply, parse_reply, stored_reply
from leyden.errors import ActionLogError
from leyden.files.json_files import WRONG_DATA, in_words
from leyden.lab.actions.action_log import Action, ActionLog
from leyden.lab.actions.action_schema import NETWORK_METHODS, NODE_METHODS
from leyden.lab.actions.source_text import Expression, call_text, comment, literal
from leyden.server.printable import cut, quoted
from leyden.server.timestamps import to_iso
from leyden.server.version import VERSION
from leyden.world.components import key_header
from leyden.world.config import body_type
from leyden.world.world import World

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms"))
_NODE_CALL = re.compile(rf"network(\[|\.wallet\()(.+)(\]|\))\.({'|'.join(NODE_METHODS)})", re.DOTALL)
_CREATED = {"createCharge": ("charge", "charges"), "createStaticCharge": ("code", "static_charges")}


def script_of(world: World, action_log: ActionLog) -> str:
    """A program whose `sb` is this sandbox again, with the same ids, invoices and journal.

    Raises `ActionLogError` when the action log is incomplete, or is not one that a sandbox recorded.
    """
    actions = action_log.complete()
    try:
        return _Writer(world, actions).program(action_log.arguments)
    except WRONG_DATA as error:
        why = f"its rows are not those of a sandbox ({in_words(error)})"
        raise ActionLogError(f"this sandbox has no script, because {why}: use save() or fork() instead") from error


def _span(ms: int) -> str:
    if not ms:
        return "0s"
    size, unit = next((size, unit) for size, unit in _UNITS if ms % size == 0)
    return f"{ms // size}{unit}"


class _Writer:
    def __init__(self, world: World, actions: Sequence[Action]) -> None:
        self._actions = actions
        self._label = world.label
        self._project_key = world.config.api_key
        self._key_header = partial(key_header, world.service)
        self._body_type = partial(body_type, world.config.contract)
        contract = world.config.contract
        self._creates = {contract.path(operation, ""): words for operation, words in _CREATED.items()}
        # Requests that are a method of a variable: verb, path, the name of the method, the fields that it may have.
        updated = re.escape(contract.path("updateStaticCharge", "")).replace(r"\{id\}", "([^/]+)")
        self._methods: tuple[tuple[str, str, str, set[str] | None], ...] = (
            ("POST", "/sandbox/v1/charges/([^/]+)/fail", "fail", {"reason"}),
            ("POST", "/sandbox/v1/payments/([^/]+)/settle", "settle", set()),
            ("POST", "/sandbox/v1/payments/([^/]+)/cancel", "cancel", set()),
            ("PATCH", updated, "update", None),
        )
        self._by_request = {row["request"]: row["id"] for row in world.service.charges.charges}
        self._has_outside_urls = _has_outside_urls(world)
        self._names: dict[str, str] = {}  # variables by the id of what they hold
        self._counts: dict[str, int] = {}
        self._used: set[str] = set()
        self._imports = {"from leyden import Sandbox"}
        self._reseeded = False
        self._write: dict[str, Callable[[dict[str, Any]], str]] = {
            "request": self._request,
            "pay": lambda facts: self._pay("pay", facts["charge"] or self._by_request.get(facts["request"]), facts),
            "scan": lambda facts: self._pay("scan", facts["static"], facts),
            "receiver": self._receiver,
            "reseed": self._reseed,
            "advance": lambda facts: call_text("sb.advance", _span(facts["by_ms"])),
            "advance_to": lambda facts: call_text("sb.advance_to", to_iso(facts["to_ms"])),
            "idle": lambda facts: "sb.run()",
            "next_event": lambda facts: call_text("sb.run", "next_event"),
            "events": lambda facts: "sb.step()" if facts["count"] == 1 else call_text("sb.run", events=facts["count"]),
            "step": lambda facts: "sb.step()",
            "call": self._call,
            "fault": self._fault,
            "service_fault": lambda facts: call_text(
                f"sb.service_faults.{facts['method']}", *facts["args"], **facts["named"]
            ),
            "payer": self._payer,
            "network": self._network,
            "response": self._response,
            "stop": self._stop,
        }

    def program(self, arguments: Mapping[str, Any]) -> str:
        named = self._label != "main" and not any(action.kind == "reseed" for action in self._actions)
        label = {"label": self._label} if named else {}
        recorded: dict[str, Any] = {}
        actions = self._actions
        if not any(action.kind == "response" for action in actions):
            actions = [action for action in actions if action.kind != "network"]
        elif actions[0].kind == "network":
            recorded, actions = {"egress": "recorded"}, actions[1:]
        creation = call_text("Sandbox", **arguments, **label, **recorded)
        lines: list[tuple[str, str, bool]] = []  # the variable or "", the expression, whether it raised
        for number, action in enumerate(actions, 1):
            try:
                text = self._write[action.kind](action.facts)
            except WRONG_DATA as error:
                why = f"{action.kind}, {in_words(error)}"
                raise ActionLogError(
                    f"action {number} of this sandbox has no script ({why}): use save() or fork() instead"
                ) from error
            lines.append((self._assign(action, text), text, action.raised))
        body = ["", f"sb = {creation}"]
        for name, text, raised in lines:
            line = f"{name} = {text}" if name in self._used or name == "sb" else text
            body += ["with suppress(Exception):", f"    {line}"] if raised else [line]
        networks = [action.facts for action in actions if action.kind in ("network", "reseed")]
        if networks[-1].get("open", False) if networks else recorded or self._has_outside_urls:
            # The recorded responses are used up, and what is due later is due in the original, too. The default would
            # send it when the sandbox is served.
            body.append(call_text("sb.set_egress", "none"))
        head = ["from contextlib import suppress", ""] if any(raised for *_, raised in lines) else []
        return "\n".join([comment(f"Written by Leyden {VERSION}."), *head, *sorted(self._imports), *body, ""])

    # Variables

    def _assign(self, action: Action, text: str) -> str:
        """The variable for what an action created; "" for none."""
        created = action.facts.get("id")
        if action.kind == "reseed":
            return "sb"
        if created is None or action.raised or created in self._names:
            return ""
        if action.kind in ("pay", "scan"):
            word = "payment"
        elif action.facts.get("call") == "traffic":
            word, created = "traffic", f"traffic {created}"
        else:
            # Only `create` of a collection returns a resource; the other ways to create one return a response.
            kinds = [kind for kind, collection in _CREATED.values() if text.startswith(f"sb.{collection}.create(")]
            if not kinds:
                return ""
            [word] = kinds
        self._counts[word] = count = self._counts.get(word, 0) + 1
        self._names[created] = name = f"{word}{count}"
        return name

    def _name(self, resource_id: str | None) -> str | None:
        """The variable for this id; the program then assigns it."""
        name = self._names.get(resource_id or "")
        if name is not None:
            self._used.add(name)
        return name

    def _id(self, resource_id: Any) -> Any:
        name = self._name(resource_id) if isinstance(resource_id, str) else None
        return resource_id if name is None else Expression(f"{name}.id")

    # Actions

    def _request(self, facts: dict[str, Any]) -> str:
        method, target, body = facts["method"], facts["target"], facts["body"].encode("latin-1")
        value = _plain_object(body)
        default_headers = {self._key_header(target).decode(): self._project_key}
        if body:
            default_headers["content-type"] = self._body_type(method, target).decode()
        headers = default_headers.items() if facts["headers"] is None else facts["headers"]
        if dict(headers) != default_headers or not 200 <= facts["status"] < 300 or (body and value is None):
            sent: Any = [tuple(pair) for pair in headers]
            named = {} if dict(sent) == default_headers and (value is not None or not body) else {"headers": sent}
            raw = value if value is not None and not named else body
            call = "sb.session.refused" if facts.get("refused") else "sb.request"
            return call_text(call, method, self._target(target), *([raw] if body else []), **named)
        if method == "POST" and target in self._creates:
            return call_text(f"sb.{self._creates[target][1]}.create", **(value or {}))
        for verb, path, call, fields in () if self._reseeded else self._methods:
            found = re.fullmatch(path, target) if method == verb else None
            takes = value is not None if fields is None else fields.issuperset(value or ())
            name = self._name(found[1]) if found and takes else None
            if name is not None:
                return call_text(f"{name}.{call}", **(value or {}))
        return call_text("sb.ask", method, self._target(target), *([value] if body else []))

    def _target(self, target: str) -> str:
        """A path, with variables in place of known ids."""
        parts = re.split("([/?&=])", target)
        if self._names.keys().isdisjoint(parts) or not target.isprintable() or set('{}"\\') & set(target):
            return target
        text = "".join(f"{{{self._name(part)}.id}}" if part in self._names else part for part in parts)
        return Expression(f'f"{text}"')

    def _pay(self, method: str, resource_id: str | None, facts: dict[str, Any]) -> str:
        name = self._name(resource_id)
        what = facts["request"] if name is None else Expression(name)
        options = {
            "amount": facts["amount"],
            "comment": facts.get("comment") or None,
            "outcome": None if facts["outcome"] == "settle" else facts["outcome"],
            "delay": _span(facts["delay_ms"]) if facts["delay_ms"] else None,
            "late": facts.get("late") or None,
        }
        given = {option: value for option, value in options.items() if value is not None}
        return call_text(f"{call_text('sb.wallet', facts['payer'])}.{method}", what, **given)

    def _receiver(self, facts: dict[str, Any]) -> str:
        defaults = {"count": 1}
        named = {name: value for name, value in facts["named"].items() if value != defaults.get(name)}
        if "charge" in named:
            named["charge"] = self._id(named["charge"])
        if "fails_with" in named:
            named["fails_with"] = self._reply(named["fails_with"])
        args = facts["args"]
        if facts["method"] == "answers":
            args = [[self._reply(one) for one in args[0]]]
        elif facts["method"] in ("always", "when"):
            args = [self._reply(args[0])]
        return call_text(f"{call_text('sb.receiver', facts['name'])}.{facts['method']}", *args, **named)

    def _reply(self, value: Any) -> Any:
        reply = parse_reply(value)
        if not isinstance(reply, Reply):
            return reply
        if stored_reply(reply) == stored_reply(reply.status):
            return reply.status
        if reply.error is not None and stored_reply(reply) == stored_reply(reply.error):
            return reply.error
        self._imports.add("from leyden.callbacks.replies import Reply")
        default = Reply()
        fields = {name: getattr(reply, name) for name in Reply.__slots__}
        if stored_reply(replace(reply, commits=None)) == stored_reply(reply):
            del fields["commits"]
        changed = {name: value for name, value in fields.items() if value != getattr(default, name)}
        return Expression(call_text("Reply", **changed))

    def _call(self, facts: dict[str, Any]) -> str:
        named = {name: self._id(value) if name == "to" else value for name, value in facts["named"].items()}
        return call_text(f"sb.{_checked_call(facts['call'])}", *facts["args"], **named)

    def _fault(self, facts: dict[str, Any]) -> str:
        named = {name: self._id(value) if name == "charge" else value for name, value in facts["named"].items()}
        return call_text(f"sb.faults.{facts['method']}", *facts["args"], **named)

    def _payer(self, facts: dict[str, Any]) -> str:
        named = {name: self._id(value) if name == "static_charge" else value for name, value in facts["named"].items()}
        return call_text(f"sb.payers.{facts['method']}", *facts["args"], **named)

    def _network(self, facts: dict[str, Any]) -> str:
        return call_text("sb.set_egress", "recorded" if facts["open"] else "none")

    def _response(self, facts: dict[str, Any]) -> str:
        named = {name: value for name, value in facts.items() if name not in ("delivery", "attempt") and value}
        return call_text("sb.session.respond", facts["delivery"], facts["attempt"], **named)

    def _stop(self, facts: dict[str, Any]) -> str:
        name = self._name(f"traffic {facts['traffic']}")
        if self._reseeded or name is None:
            self._imports.add("from leyden.lab.traffic import Traffic")
            return f"Traffic(sb.world, {literal(facts['traffic'])}).stop()"
        return f"{name}.stop()"

    def _reseed(self, facts: dict[str, Any]) -> str:
        # The variables before belong to the sandbox before the fork: from here on, ids are written.
        self._reseeded = True
        return call_text("sb.fork", self._label, reseed=facts["seed"])


def _has_outside_urls(world: World) -> bool:
    """Whether a callback of the world may go to the network."""
    service = world.service
    urls = chain(
        (row["callback_url"] for row in service.charges.charges),
        (row["callback_url"] for row in service.static_charges.static_charges),
        (row["url"] for row in service.outbox.deliveries()),
    )
    return any(url is not None and not is_built_in(url) for url in urls)


def _checked_call(call: str) -> str:
    """The function of an action `call`, written again: `traffic`, or a method of the network or of one of its nodes.

    Raises `ValueError` for any other text, which could be any code.
    """
    if call == "traffic" or call in [f"network.{method}" for method in NETWORK_METHODS]:
        return call
    found = _NODE_CALL.fullmatch(call)
    try:
        name = literal_eval(found[2]) if found is not None else None
    except (MemoryError, SyntaxError):
        name = None
    if found is None or not isinstance(name, str):
        raise ValueError(f"it calls {quoted(cut(call, 60))}, which is no method of a sandbox")
    return f"network{found[1]}{literal(name)}{found[3]}.{found[4]}"


def _plain_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object that is written as exactly these bytes; None for any other body."""
    if body[:1] != b"{":
        return None
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return value if orjson.dumps(value) == body else None
