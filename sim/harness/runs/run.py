"""A run: steps done to a service and to the model side by side, and the two compared after each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from leyden.harness.checks import responses as checks
from leyden.harness.checks.observe import look_at_messages, look_at_posts, message_of
from leyden.harness.checks.violations import Broken
from leyden.harness.model.callbacks import host_of
from leyden.harness.model.charges import Cell
from leyden.harness.model.model import Model, Promise
from leyden.harness.model.records import Charge, Delivery, Static
from leyden.harness.model.requests import OPERATIONS
from leyden.harness.model.rules import Reading, instant, iso
from leyden.harness.options import NOBODY
from leyden.harness.runs.adapters import PROJECT, RIVAL, Answer, Target

Step = Mapping[str, Any]

_JSON = (("Content-Type", "application/json"),)


class Request(NamedTuple):
    """One request, to the byte."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Run:
    """One world, from its beginning. `do` raises `Broken` when a promise is broken.

    `seen` collects the cells of the coverage matrix that were reached; `unchecked` what this target cannot show.
    """

    def __init__(
        self, target: Target, *, seed: int = 0, start_ms: int = 0, overlays: Sequence[str] = (), disk: bool = False
    ) -> None:
        self.target = target
        target.begin(seed, start_ms, overlays, disk=disk)
        self.disk = disk
        self.model = Model(Reading.of(list(overlays)), start_ms, self._luck)
        self.seen: dict[Cell, None] = {}
        self.unchecked: dict[str, None] = {}
        self.texts: dict[str, Any] = {}
        self.node: bytes | None = None
        self.ids: dict[str, object] = {}
        self.hashes: dict[str, Charge] = {}
        self.rows: dict[str, list[Any]] = {}
        self.posts: dict[str, int] = {}
        self.done = 0
        self.requests: list[Request] = []
        self.last: tuple[Request, Answer] | None = None
        self._noting = False
        if target.network:
            self.model.outbox.blocked = lambda url: not host_of(url).endswith("inbox")
        if target.controlled:
            self._take_secret()

    # Steps

    def do(self, step: Step) -> bool:
        """Do one step and compare. False, and nothing happens, when it points at something that is not there.

        Raises `Broken`; `KeyError` for a step in words that nobody knows.
        """
        from leyden.harness.executors.executors import ACTS

        if step.get("by") == "rival" and not self.target.shared and step["do"] != "get":
            self.unchecked["another project's things, which a target that is served keeps in a world of their own"] = (
                None
            )
            return False
        if step.get("by") == "rival" and self.target.keys[RIVAL] == NOBODY:
            self.unchecked["that projects do not see each other: give another project's key"] = None
            return False
        self.rows.clear()
        try:
            self._noting = True
            done = ACTS[step["do"]](self, step)
            self._noting = False
            if done:
                self.done += 1
                self.catch_up()
        except Broken:
            raise
        except Exception as error:  # whatever escapes from a service in process is that service's failure
            if not self._escaped(error):
                raise
            text = f"{type(error).__name__}: {error}"
            raise Broken("errors_are_problems", "DECISIONS statuses", step["do"], "an answer", text) from error
        return done

    @staticmethod
    def _escaped(error: BaseException) -> bool:
        """Whether an exception was raised below the harness, and is not our own slip."""
        trace = error.__traceback__
        files = []
        while trace is not None:
            files.append(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
        return "/sim/harness/" not in files[-1] and any(name.endswith("adapters.py") for name in files)

    def catch_up(self) -> None:
        """Let what is due now happen in the model too, and look at everything that this step touched."""
        model = self.model
        model.advance_to(model.now)
        touched, model.touched = model.touched, {}
        for thing in touched:
            self.look(thing)
            if isinstance(thing, Charge):
                look_at_messages(self, thing)
        for host in model.outbox.heard_at:
            look_at_posts(self, host)
        model.outbox.heard_at.clear()
        for cell in model.reached():
            self.seen[cell] = None

    # Requests

    def ask(
        self,
        operation: str,
        path: str,
        *,
        key: str | None = PROJECT,
        body: Any = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """One request to the service. `key` is a project's name, a text that nobody holds, or None."""
        sent = list(headers)
        if key is not None:
            sent.append(("apikey", self.target.keys.get(key, key)))
        raw = b""
        if body is not None:
            sent += _JSON
            raw = encoded(body)
        one = OPERATIONS[operation]
        answer = self.send(one.method, path, sent, raw)
        self.seen[("answer", operation, str(answer.status))] = None
        if one.wallet and answer.headers.get("access-control-allow-origin") != "*":
            raise Broken("lifecycle", "DECISIONS lnurl-pay", f"{operation}: CORS", "*", dict(answer.headers))
        return answer

    def control(self, method: str, path: str, body: Any = None, *, project: str = PROJECT) -> Answer:
        """One request to the control plane."""
        headers = [("apikey", self.target.keys[project]), *(_JSON if body is not None else ())]
        return self.send(method, f"/sandbox/v1{path}", headers, b"" if body is None else encoded(body))

    def send(self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
        """One request, and a note of it when it is a step's own and not one of ours to look."""
        request = Request(method, path, tuple(headers), body)
        if self._noting:
            self.requests.append(request)
        self.last = (request, Answer(0, {}, b""))
        answer = self.target.send(method, path, headers, body)
        self.last = (request, answer)
        return answer

    def controlled(self, method: str, path: str, body: Any = None, *, project: str = PROJECT) -> Any:
        """The same, where nothing but 200 will do."""
        answer = self.control(method, path, body, project=project)
        if answer.status != 200:
            raise Broken("lifecycle", "DECISIONS control-plane", f"{method} {path}", 200, answer.body.decode())
        return answer.json

    def kept(self, promise: Promise, answer: Answer, where: str) -> Any:
        """Hold an answer against its promise; the `data` of a success, or None."""
        clause = f"DECISIONS {promise.because}"
        replayed = answer.headers.get("idempotent-replayed")
        if promise.replays is not None:
            if replayed != "true" or answer.body != promise.replays:
                first = promise.replays.decode("utf-8", "replace")
                again = f"{answer.body.decode('utf-8', 'replace')} (Idempotent-Replayed: {replayed})"
                raise Broken("echo", clause, f"{where}: replay", first, again)
            self.seen[("policy", "idempotency", "replayed")] = None
            return None
        if replayed is not None:
            raise Broken("echo", clause, f"{where}: Idempotent-Replayed", "not there on a first answer", replayed)
        if promise.status >= 400:
            body = checks.problem(answer, promise.status, promise.code, clause, where)
            if promise.points and promise.points not in [one["pointer"] for one in body["errors"]]:
                raise Broken(
                    "errors_are_problems", "DECISIONS statuses", f"{where}: place", promise.points, body["errors"]
                )
            if promise.remember is not None:
                promise.remember(answer.body)
            return None
        data = checks.success(answer, clause, where)
        if promise.remember is not None:
            promise.remember(answer.body)
        return data

    # Binding what only the service can choose

    def bind_charge(self, charge: Charge, data: Any, where: str) -> None:
        """See a new Charge for the first time, and hold its id and its invoice from now on."""
        if not isinstance(data, dict) or not isinstance(data.get("invoice"), dict):
            raise Broken("echo", "DECISIONS client-fields", where, "a Charge", data)
        charge.id = checks.identifier(data.get("id"), self.ids, where)
        self.ids[charge.id] = charge
        charge.request = data["invoice"].get("request")
        checks.same(charge.resource(), data, "echo", "DECISIONS client-fields", where)
        found = checks.invoice(charge, charge.request, self.node, self.hashes, where)
        self.node, charge.payment_hash = found.payee, found.payment_hash.hex()
        self.hashes[charge.payment_hash] = charge

    def bind_static(self, static: Static, data: Any, where: str) -> None:
        """See a new Static Charge for the first time."""
        if not isinstance(data, dict) or not isinstance(data.get("invoice"), dict):
            raise Broken("echo", "DECISIONS paths", where, "a Static Charge", data)
        static.id = checks.identifier(data.get("id"), self.ids, where)
        self.ids[static.id] = static
        static.link = data["invoice"].get("request")
        checks.same(static.resource(), data, "echo", "DECISIONS client-fields", where)
        checks.lnurl(static, static.link, self.target.base_url, where)

    def _take_secret(self) -> None:
        for project in self.projects:
            found = self.controlled("GET", "/webhook-secret", project=project)
            if not checks.secret_is_sound(found["current"]):
                raise Broken("callback_contract", "DECISIONS callback-signature", "secret", "24 to 64 bytes", found)
            self.model.secrets[project] = [(found["current"], None)]

    def _luck(self, delivery: Delivery, number: int, low: int, high: int) -> int:
        """When the service made, or will make, an attempt that it may place itself within bounds."""
        where = f"callback {delivery.event} of {delivery.charge.label}, attempt {number}"
        bounds = iso(low) if low == high else f"due from {iso(low)} to {iso(high)}"
        noting, self._noting = self._noting, False
        row = message_of(self, delivery)
        self._noting = noting
        made = row["attempts"][number - 1 : number]
        text = made[0]["dueAt"] if made else row["dueAt"]
        due_at = None if text is None else instant(text)
        if due_at is None or not low <= due_at <= high:
            raise Broken("callback_contract", "DECISIONS callback-delivery", where, bounds, text or "never again")
        return due_at

    # Looking

    def look(self, thing: Charge | Static) -> None:
        """Read a resource and compare it, to the last field."""
        operation, path = details(thing)
        answer = self.ask(operation, path, key=thing.project)
        where = f"{thing.label} ({operation})"
        data = checks.success(answer, "the lifecycle table", where)
        promised = thing.resource()
        if data != promised:
            moved = isinstance(data, dict) and data.get("status") != promised["status"]
            clause = _row_text(self.model, thing) if moved else "DECISIONS client-fields"
            checks.same(promised, data, "lifecycle" if moved else "echo", clause, where)

    def finish(self) -> None:
        """Compare everything there is: every resource and message, the lists, the balances, the clock."""
        from leyden.harness.checks.final_checks import look_at_everything

        self.rows.clear()
        look_at_everything(self)

    @property
    def projects(self) -> tuple[str, ...]:
        """The projects of this run's world: a served Leyden gives each key a world of its own."""
        return (PROJECT, RIVAL) if self.target.shared else (PROJECT,)


def encoded(body: Any) -> bytes:
    """A JSON value as bytes; what UTF-8 cannot write is escaped."""
    try:
        return orjson.dumps(body)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(body).encode("ascii")


def details(thing: Charge | Static) -> tuple[str, str]:
    """How a resource is read: the operation and its path."""
    if isinstance(thing, Static):
        return "getStaticChargeDetails", f"/v0/static-charges/{thing.id}"
    return "getChargeDetails", f"/v0/charges/{thing.id}"


def _row_text(model: Model, thing: Charge | Static) -> str:
    """The row of the lifecycle table that moved this resource last."""
    resource = "Charge" if isinstance(thing, Charge) else "StaticCharge"
    rows = [cell for cell in model.book.reached if cell[0] == "row" and cell[1] == resource]
    if not rows:
        return f"the {resource} table has no row for what happened"
    _, _, state, trigger, when, then = rows[-1]
    return f"{resource}: {state}, {trigger}{f' ({when})' if when else ''} -> {then}"


Act = Callable[[Run, Step], bool]
