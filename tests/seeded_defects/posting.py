"""Bent callbacks: what is enqueued, posted, signed and heard, and when the shop got it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.server.callbacks.outbox import Outbox
from leyden.server.callbacks.signing import sign
from leyden.server.charges.wire_model import charge_callback, charge_resource
from leyden.server.contract.types import Rule
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.timestamps import parse_iso
from tests.seeded_defects.defect import Make, Plant
from tests.seeded_defects.probing import HOOK, inbox, new_charge
from tests.seeded_defects.seams import Document, Edit, Through, attribute, changed, port

CALLBACKS = {
    "createCharge": ("/v0/charges", "chargeUpdated"),
    "createStaticCharge": ("/v0/static-charges", "chargePaid"),
}
SCHEDULE = [0, "5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"]


class Anything:
    """A schema that everything keeps."""

    def is_valid(self, instance: Any) -> bool:
        """Always."""
        return True

    def iter_errors(self, instance: Any) -> list[Any]:
        """None."""
        return []


def unchecked(rule: Any) -> Any:
    """A callback's rule under which every body may leave."""
    return changed(rule, rule=Rule({}, Anything()))


def told(alter: Callable[[dict[str, Any]], Any]) -> Plant:
    """Tell something else than what is so; `alter` changes the facts given to `enqueue`, `data` among them. When it
    answers False nothing is told."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def enqueue(self: Any, **facts: Any) -> None:
            facts = {**facts, "data": dict(facts["data"]), "rule": unchecked(facts["rule"])}
            if alter(facts) is not False:
                original(self, **facts)

        return enqueue

    return attribute(Outbox, "enqueue", make)


def data(alter: Callable[[dict[str, Any]], Any]) -> Plant:
    """Change the body of every callback before it is signed."""

    def edit(facts: dict[str, Any]) -> None:
        alter(facts["data"])

    return told(edit)


def posted(alter: Callable[[CallbackRequest, Any], CallbackRequest]) -> Plant:
    """Change a post after it was signed; `alter` is given the service too."""

    class Alters(Through):
        def post(self, post: CallbackRequest, answered: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
            self.inner.post(alter(post, self.late.service), answered)

    return port("transport", Alters)


def headers(post: CallbackRequest, **changes: str | None) -> CallbackRequest:
    """The post with other headers; None takes one away."""
    named = {name.replace("_", "-"): value for name, value in changes.items()}
    kept: Mapping[str, str | None] = {**post.headers, **named}
    return changed(post, headers={name: value for name, value in kept.items() if value is not None})


def sealed(
    post: CallbackRequest, service: Any, choose: Callable[[list[str]], list[str]] = lambda secrets: secrets
) -> CallbackRequest:
    """The post, signed as it now is with those of the valid secrets that `choose` chooses."""
    row = service.outbox.delivery(post.delivery_id)
    stamp_s = int(post.headers["webhook-timestamp"])
    secrets = choose(service.projects.signing_secrets(row["project"], parse_iso(post.headers["leyden-time"])))
    return headers(post, webhook_signature=sign(secrets, post.headers["webhook-id"], stamp_s, post.body.decode()))


def heard(alter: Callable[[CallbackResponse], CallbackResponse]) -> Plant:
    """Mistake what a receiver answered."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, post, answer: original(self, post, alter(answer))

    return attribute(Outbox, "on_response", make)


def delivery(operation_id: str = "createCharge", **changes: Any) -> Edit:
    """Change an operation's `x-delivery`."""
    path, name = CALLBACKS[operation_id]

    def edit(document: Document) -> None:
        for rules in document["paths"][path]["post"]["callbacks"][name].values():
            rules["x-delivery"].update(changes)

    return edit


def attempts_at(make: Make, answers: list[Any], **fields: Any) -> list[int]:
    """When, in seconds after the payment, the shop got the callback of a paid Charge that it answers so."""
    with make() as sandbox:
        sandbox.receiver("shop").answers(answers)
        charge = new_charge(sandbox, callbackUrl=HOOK, **fields)
        sandbox.wallet("ana").pay(charge)
        begun = sandbox.world.clock.now()
        sandbox.run()
        return [round((got.at - begun) / 1_000) for got in inbox(sandbox)]


def tell(made: Any, operation_id: str, charge_id: str, event: str, status: str, *, due: str) -> None:
    """Enqueue a callback that nobody promised, about a Charge with a URL; `due` is the field that says when it is due,
    which is at once if that has passed."""
    row = made.charges.charges.existing(charge_id)
    charge = charge_resource(row)
    if charge["callbackUrl"]:
        made.outbox.enqueue(
            resource_id=charge_id,
            project=row["project"],
            url=charge["callbackUrl"],
            rule=unchecked(made.contract.operations[operation_id].callbacks[0]),
            event=event,
            sequence=1,
            data={**charge_callback(row), "status": status},
            at=parse_iso(charge[due]),
        )
