"""Scripts: the Python that makes a world anew, written from what was done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from keyword import iskeyword
from typing import Any

import orjson

from leyden.callbacks.replies import Reply, plain_reply, said_from
from leyden.lab.action_log import Act, History
from leyden.server.timestamps import to_iso
from leyden.world.world import World

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms"))
_KINDS = {"createCharge": ("charge", "charges"), "createStaticCharge": ("code", "static_charges")}


def script_of(world: World, history: History) -> str:
    """A program whose `sb` is this world again: same ids, same invoices, same journal, to the byte.

    Raises `HistoryError` when what was done is not known in full.
    """
    acts = history.told()
    return _Writer(world, acts).program(history.begun)


def said(call: str, *args: Any, **named: Any) -> str:
    """A call as it is written, arguments left out where they are None."""
    words = [_written(arg) for arg in args]
    odd = {name: value for name, value in named.items() if not name.isidentifier() or iskeyword(name)}
    words += [f"{name}={_written(value)}" for name, value in named.items() if name not in odd]
    if odd:
        words.append(f"**{_written(odd)}")
    return f"{call}({', '.join(words)})"


class _Name(str):
    """A variable of the program: written as it is, without quotes."""

    __slots__ = ()


def _written(value: Any) -> str:
    if isinstance(value, _Name):
        return str(value)
    if isinstance(value, str) and value.isprintable():
        return orjson.dumps(value).decode()  # in double quotes
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(_written, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_written(key)}: {_written(item)}" for key, item in value.items()) + "}"
    return repr(value)


def _span(ms: int) -> str:
    if not ms:
        return "0s"
    size, unit = next((size, unit) for size, unit in _UNITS if ms % size == 0)
    return f"{ms // size}{unit}"


class _Writer:
    def __init__(self, world: World, acts: Sequence[Act]) -> None:
        self._acts = acts
        self._label = world.label
        self._project_key = world.config.api_key
        self._key_header = world.service.pipeline.api_key_header.decode()
        operations = world.config.contract.operations
        self._creates = {operations[operation].path: words for operation, words in _KINDS.items()}
        self._update = operations["updateStaticCharge"].path
        self._by_request = {row["request"]: row["id"] for row in world.service.charges.charges}
        self._names: dict[str, str] = {}  # variables by the id of what they hold
        self._counts: dict[str, int] = {}
        self._used: set[str] = set()
        self._replies = self._visitors = False
        self._reseeded = False
        self._write: dict[str, Callable[[dict[str, Any]], str]] = {
            "request": self._request,
            "pay": self._pay,
            "scan": self._scan,
            "receiver": self._receiver,
            "reseed": self._reseed,
            "advance": lambda facts: said("sb.advance", _span(facts["by_ms"])),
            "advance_to": lambda facts: said("sb.advance_to", to_iso(facts["to_ms"])),
            "idle": lambda facts: "sb.run()",
            "next_event": lambda facts: said("sb.run", "next_event"),
            "step": lambda facts: "sb.step()",
            "call": lambda facts: said(f"sb.{facts['call']}", *facts["args"], **facts["named"]),
            "fault": self._fault,
            "stop": self._stop,
        }

    def program(self, begun: Mapping[str, Any]) -> str:
        named = self._label != "main" and not any(act.kind == "reseed" for act in self._acts)
        label = {"label": self._label} if named else {}
        made = said("Sandbox", **begun, **label)
        lines: list[tuple[str, str, bool]] = []  # the variable, if one is set; the rest; whether it raised
        for act in self._acts:
            text = self._write[act.kind](act.facts)
            lines.append((self._hold(act, text), text, act.raised))
        body = [f"sb = {made}"]
        for name, text, raised in lines:
            line = f"{name} = {text}" if name in self._used or name == "sb" else text
            body += ["with suppress(Exception):", f"    {line}"] if raised else [line]
        head = ["from contextlib import suppress", ""] if any(raised for *_, raised in lines) else []
        head += ["from leyden import Sandbox"] + ["from leyden.lab.traffic import Traffic"] * self._visitors
        head += ["from leyden.callbacks.replies import Reply"] * self._replies
        return "\n".join([*head, "", *body, ""])

    # Variables

    def _hold(self, act: Act, text: str) -> str:
        """The variable for what an act brought into being, or nothing."""
        made = act.facts.get("id")
        if act.kind == "reseed":
            return "sb"
        if made is None or act.raised or made in self._names:
            return ""
        if act.kind in ("pay", "scan"):
            word = "payment"
        elif act.facts.get("call") == "traffic":
            word, made = "traffic", f"traffic {made}"
        else:
            # Only what a collection made is a handle; an answer to a request of another form is bytes.
            kinds = [kind for kind, collection in _KINDS.values() if text.startswith(f"sb.{collection}.create(")]
            if not kinds:
                return ""
            [word] = kinds
        self._counts[word] = count = self._counts.get(word, 0) + 1
        self._names[made] = name = f"{word}{count}"
        return name

    def _name(self, made: str | None) -> str | None:
        """The variable that holds what has this id; it is then one that the program sets."""
        name = self._names.get(made or "")
        if name is not None:
            self._used.add(name)
        return name

    def _id(self, made: Any) -> Any:
        name = self._name(made) if isinstance(made, str) else None
        return made if name is None else _Name(f"{name}.id")

    # Acts

    def _request(self, facts: dict[str, Any]) -> str:
        method, target, body = facts["method"], facts["target"], facts["body"].encode("latin-1")
        value = _object(body)
        ours = {self._key_header: self._project_key}
        if body:
            ours["content-type"] = "application/json"
        headers = ours.items() if facts["headers"] is None else facts["headers"]
        if dict(headers) != ours or not 200 <= facts["status"] < 300 or (body and value is None):
            sent: Any = [tuple(pair) for pair in headers]
            named = {} if dict(sent) == ours and (value is not None or not body) else {"headers": sent}
            raw = value if value is not None and not named else body
            return said("sb.request", method, self._target(target), *([raw] if body else []), **named)
        if method == "POST" and target in self._creates:
            return said(f"sb.{self._creates[target][1]}.create", **(value or {}))
        steps = target.split("/")
        if not self._reseeded and method == "POST" and steps[:4] == ["", "sandbox", "v1", "charges"]:
            name = self._name(steps[4]) if steps[5:] == ["fail"] and list(value or ()) in ([], ["reason"]) else None
            if name is not None:
                return said(f"{name}.fail", **(value or {}))
        if not self._reseeded and method == "POST" and steps[:4] == ["", "sandbox", "v1", "payments"] and not value:
            name = self._name(steps[4]) if steps[5:] in (["settle"], ["cancel"]) else None
            if name is not None:
                return f"{name}.{steps[5]}()"
        if not self._reseeded and method == "PATCH" and value is not None:
            before, _, after = self._update.partition("{id}")
            made = target.removeprefix(before).removesuffix(after)
            name = self._name(made) if target == f"{before}{made}{after}" else None
            if name is not None:
                return said(f"{name}.update", **value)
        return said("sb.ask", method, self._target(target), *([value] if body else []))

    def _target(self, target: str) -> str:
        """A path, with variables in place of the ids that they hold."""
        steps = target.replace("?", "/").replace("&", "/").replace("=", "/").split("/")
        known = [step for step in steps if step in self._names]
        if not known or not target.isprintable() or set('{}"\\') & set(target):
            return target
        for step in known:
            target = target.replace(step, f"{{{self._name(step)}.id}}")
        return _Name(f'f"{target}"')

    def _pay(self, facts: dict[str, Any]) -> str:
        name = self._name(facts["charge"] or self._by_request.get(facts["request"]))
        what = facts["request"] if name is None else _Name(name)
        return said(f"{said('sb.wallet', facts['payer'])}.pay", what, **_given(facts))

    def _scan(self, facts: dict[str, Any]) -> str:
        name = self._name(facts["static"])
        what = facts["request"] if name is None else _Name(name)
        return said(f"{said('sb.wallet', facts['payer'])}.scan", what, **_given(facts))

    def _receiver(self, facts: dict[str, Any]) -> str:
        named = {name: value for name, value in facts["named"].items() if value is not None}
        if "count" in facts["named"]:
            named["count"] = facts["named"]["count"]
            if named["count"] == 1:
                del named["count"]
        if "charge" in named:
            named["charge"] = self._id(named["charge"])
        args = facts["args"]
        if facts["method"] == "answers":
            args = [[self._reply(one) for one in args[0]]]
        elif facts["method"] in ("always", "when"):
            args = [self._reply(args[0])]
        return said(f"{said('sb.receiver', facts['name'])}.{facts['method']}", *args, **named)

    def _reply(self, value: Any) -> Any:
        reply = said_from(value)
        if not isinstance(reply, Reply):
            return reply
        if plain_reply(reply) == plain_reply(reply.status):
            return reply.status
        if reply.error is not None and plain_reply(reply) == plain_reply(reply.error):
            return reply.error
        self._replies = True
        usual = Reply()
        fields = {name: getattr(reply, name) for name in Reply.__slots__}
        if plain_reply(replace(reply, commits=None)) == plain_reply(reply):
            del fields["commits"]
        return _Name(said("Reply", **{name: value for name, value in fields.items() if value != getattr(usual, name)}))

    def _fault(self, facts: dict[str, Any]) -> str:
        named = {name: self._id(value) if name == "charge" else value for name, value in facts["named"].items()}
        return said(f"sb.faults.{facts['method']}", *facts["args"], **named)

    def _stop(self, facts: dict[str, Any]) -> str:
        name = self._name(f"traffic {facts['traffic']}")
        if self._reseeded:
            self._visitors = True
            return f"Traffic(sb.world, {_written(facts['traffic'])}).stop()"
        return f"{name}.stop()"

    def _reseed(self, facts: dict[str, Any]) -> str:
        # What was held before belongs to the sandbox before; from here on it is named by its id.
        self._reseeded = True
        return said("sb.fork", self._label, reseed=facts["luck"])


def _given(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked of a wallet besides the plainest payment."""
    named: dict[str, Any] = {}
    if facts["amount"] is not None:
        named["amount"] = facts["amount"]
    if facts.get("comment"):
        named["comment"] = facts["comment"]
    if facts["outcome"] != "settle":
        named["outcome"] = facts["outcome"]
    if facts["delay_ms"]:
        named["delay"] = _span(facts["delay_ms"])
    return named


def _object(body: bytes) -> dict[str, Any] | None:
    """The JSON object that these very bytes are the plain form of; None for anything else."""
    if body[:1] != b"{":
        return None
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return value if orjson.dumps(value) == body else None
