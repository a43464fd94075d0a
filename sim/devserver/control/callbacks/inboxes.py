"""The control plane's operations for inboxes (the built-in receivers) and for injected faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.arguments import receiver_name
from leyden.callbacks.faults.kinds import FaultFieldRefused, FaultSpec, fault_resource
from leyden.callbacks.inboxes import Inbox, Received
from leyden.callbacks.receiver import Receiver
from leyden.callbacks.replies import parse_reply
from leyden.devserver.control.body_values import check_charge_id
from leyden.devserver.control.pages import Page, page
from leyden.devserver.control.slices import in_slices
from leyden.errors import ArgumentError
from leyden.server.contract.bind import handles
from leyden.server.errors import FieldError, NotFound, SemanticConflict
from leyden.server.http.request import Request
from leyden.server.spelling import closest
from leyden.server.timestamps import to_iso
from leyden.stepwise import Stepwise, run_to_end
from leyden.world.world import World

_LIMIT = 100
_POSTS_AT_ONCE = 20
_NAMED, _COMPARED = 5, 1_000  # similar names in an error, and names among which they are sought
_NO_INBOX = "there is no inbox with this name: it is created by its first request or its first script"


class InboxControl:
    """Handlers for one world's inboxes and faults."""

    def __init__(self, world: World) -> None:
        self._world = world

    # Inboxes

    @handles(needs=("query.limit",), recorded=False)
    def list_inboxes(self, call: Request) -> Page:
        """One page with summaries of the inboxes, in the order of creation."""
        return page(
            call,
            "inbox",
            self._world.receivers.page,
            lambda one: self._summary(one.name, one.received, one.restored, one.objections),
        )

    @handles(raises=(NotFound,), needs=("path.name", "query.after", "query.limit"), recorded=False)
    async def get_inbox(self, call: Request) -> dict[str, Any]:
        """One inbox, its script and the requests that it received. Many of them are read in slices."""
        _check_name(call.path["name"])
        receivers = self._world.receivers
        if not receivers.is_known(call.path["name"]):
            name, known = call.path["name"].lower(), receivers.names(_COMPARED)
            longer = sorted(one for one in known if one.startswith(name))[:_NAMED]
            near = closest(name, known) if len(longer) < 2 else f"one of {', '.join(longer)}"
            mend = "" if near is None else f"; did you mean {near}?"
            raise NotFound(f"{_NO_INBOX}{mend}")
        world, receiver = self._world, receivers.receiver(call.path["name"])
        found, inbox = self._summary_of(receiver), receiver.inbox
        steps = _posts(inbox, call.query["after"], call.query["limit"])
        posts = await in_slices(world, steps, lambda: world.lock)
        if posts is None:
            return await self.get_inbox(call)  # a reset: the inbox is of the former run
        return {**found, "posts": posts}

    @handles(raises=(NotFound, SemanticConflict), needs=("path.name", "body.rules", "body.answers", "body.always"))
    def script_inbox(self, call: Request) -> dict[str, Any]:
        """Set how an inbox answers."""
        body = call.body
        world, name = self._world, call.path["name"]
        _check_name(name)
        try:
            rules = [(parse_reply(rule["say"]), rule) for rule in body["rules"]]
            for number, rule in enumerate(body["rules"]):
                world.receivers.check_event(rule.get("event"))
                check_charge_id(world, rule.get("chargeId"), f"/rules/{number}/chargeId")
            script = [parse_reply(value) for value in body["answers"]]
            always = parse_reply(body["always"])
        except ValueError as error:
            raise SemanticConflict(str(error)) from None
        receiver = world.receivers.receiver(name).reset_script().always(always).answers(script)
        for say, rule in rules:
            receiver.when(
                say,
                event=rule.get("event"),
                charge=rule.get("chargeId"),
                attempt=rule.get("attempt"),
                count=rule.get("count", 1),
            )
        return {**self._summary_of(receiver), "posts": run_to_end(_posts(receiver.inbox, 0, _LIMIT))}

    def _summary(self, name: str, received: int, restored: int, objections: int) -> dict[str, Any]:
        return {
            "name": name,
            "run": self._world.config.run,
            "received": received,
            "restored": restored,
            "objections": objections,
        }

    def _summary_of(self, receiver: Receiver) -> dict[str, Any]:
        inbox, restored = receiver.inbox, self._world.receivers.restored(receiver.name)
        return {
            **self._summary(receiver.name, inbox.total, restored, receiver.objections),
            "script": {
                "rules": [
                    {
                        "say": rule["reply"],
                        "event": rule["event"],
                        "chargeId": rule["charge"],
                        "attempt": rule["attempt"],
                        "count": rule["count"],
                    }
                    for rule in receiver.rules
                ],
                "answers": receiver.script,
                "always": receiver.usual,
            },
        }

    # Faults

    @handles(needs=("query.limit",), recorded=False)
    def list_faults(self, call: Request) -> Page:
        """One page of the faults that were added and not cleared, the oldest first."""
        return page(call, "fault", self._world.faults.page, fault_resource)

    @handles(raises=(SemanticConflict,), needs=("body.kind",))
    def add_fault(self, call: Request) -> dict[str, Any]:
        """Add a fault."""
        wanted: Mapping[str, Any] = call.body
        check_charge_id(self._world, wanted.get("chargeId"), "/chargeId")
        try:
            # The document's names are those of the fault's fields, except for this one.
            named = {"charge" if name == "chargeId" else name: value for name, value in wanted.items()}
            row = self._world.faults.add(FaultSpec(**named))
        except FaultFieldRefused as refused:
            fields = ["chargeId" if name == "charge" else name for name in refused.fields]
            detail = refused.text.format(", ".join(fields))
            raise SemanticConflict(detail, field_errors=[FieldError(f"/{name}", detail) for name in fields]) from None
        except ValueError as error:
            raise SemanticConflict(str(error)) from None
        return fault_resource(row)

    @handles()
    def clear_faults(self, call: Request) -> dict[str, Any]:
        """Remove all faults."""
        return self._cleared(None)

    @handles(raises=(NotFound,), needs=("path.id",))
    def clear_fault(self, call: Request) -> dict[str, Any]:
        """Remove one fault."""
        faults, fault_id = self._world.faults, call.path["id"]
        if faults.row(fault_id) is None:
            raise NotFound("this sandbox has no fault with this id: list the faults")
        return self._cleared(fault_id)

    def _cleared(self, fault_id: str | None) -> dict[str, Any]:
        faults = self._world.faults
        cleared, (held, copies) = faults.clear(fault_id), faults.begun(fault_id)
        return {"cleared": cleared, "held": held, "copies": copies}


def _check_name(name: str) -> None:
    """Raise `NotFound` for a name whose host below `.localhost` no URL can have: no callback would come there."""
    try:
        receiver_name(name)
    except ArgumentError:
        raise NotFound(
            "no inbox can have this name: the parts that dots join have at most 63 characters, and the whole with "
            ".localhost has at most 253"
        ) from None


def _posts(inbox: Inbox, after: int, limit: int) -> Stepwise[list[dict[str, Any]]]:
    """At most `limit` posts with numbers above `after`. Some may be removed between two steps."""
    found: list[dict[str, Any]] = []
    while len(found) < limit:
        posts = [*inbox.after(after, min(_POSTS_AT_ONCE, limit - len(found)))]
        if not posts:
            break
        found += [_post(number, got, is_copy=inbox.is_copy(number, got)) for number, got in posts]
        after = posts[-1][0]
        yield
    return found


def _post(number: int, got: Received, *, is_copy: bool) -> dict[str, Any]:
    return {
        "number": number,
        "at": to_iso(got.at),
        "url": got.url,
        "event": got.event,
        "attempt": got.attempt,
        "headers": dict(got.headers),
        "body": got.body,
        "answer": got.answer,
        "committed": got.commits,
        "repeated": got.repeated,
        "copy": is_copy,
        "verdict": list(got.verdict),
    }
