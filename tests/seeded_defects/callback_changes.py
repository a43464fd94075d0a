"""Changes of callbacks: what is enqueued, sent and signed, which response counts, and when the receiver got them."""

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
from tests.seeded_defects.patches import Document, Edit, Wrapper, attribute, changed, port
from tests.seeded_defects.probing import HOOK, inbox, new_charge

CALLBACKS = {
    "createCharge": ("/v0/charges", "chargeUpdated"),
    "createStaticCharge": ("/v0/static-charges", "chargePaid"),
}
SCHEDULE = [0, "5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"]


class Anything:
    """A schema to which every value conforms."""

    def is_valid(self, instance: Any) -> bool:
        """True."""
        return True

    def iter_errors(self, instance: Any) -> list[Any]:
        """No errors."""
        return []


def unchecked(rule: Any) -> Any:
    """The rule of a callback with a schema that allows every body."""
    return changed(rule, rule=Rule({}, Anything()))


def changed_callback(alter: Callable[[dict[str, Any]], Any]) -> Plant:
    """Change the arguments of `Outbox.enqueue`, `data` among them. If `alter` returns False nothing is enqueued."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def enqueue(self: Any, **arguments: Any) -> None:
            arguments = {**arguments, "data": dict(arguments["data"]), "rule": unchecked(arguments["rule"])}
            if alter(arguments) is not False:
                original(self, **arguments)

        return enqueue

    return attribute(Outbox, "enqueue", make)


def data(alter: Callable[[dict[str, Any]], Any]) -> Plant:
    """Change the body of every callback before it is signed."""

    def edit(arguments: dict[str, Any]) -> None:
        alter(arguments["data"])

    return changed_callback(edit)


def changed_request(alter: Callable[[CallbackRequest, Any], CallbackRequest]) -> Plant:
    """Change a request after it was signed; `alter` also gets the service."""

    class ChangedTransport(Wrapper):
        def post(self, post: CallbackRequest, on_response: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
            self.inner.post(alter(post, self.late.service), on_response)

    return port("transport", ChangedTransport)


def headers(post: CallbackRequest, **changes: str | None) -> CallbackRequest:
    """The request with other headers; None removes one."""
    named = {name.replace("_", "-"): value for name, value in changes.items()}
    kept: Mapping[str, str | None] = {**post.headers, **named}
    return changed(post, headers={name: value for name, value in kept.items() if value is not None})


def signed_again(
    post: CallbackRequest, service: Any, choose: Callable[[list[str]], list[str]] = lambda secrets: secrets
) -> CallbackRequest:
    """The request, signed again with those valid secrets that `choose` selects."""
    row = service.outbox.delivery(post.delivery_id)
    stamp_s = int(post.headers["webhook-timestamp"])
    secrets = choose(service.projects.signing_secrets(row["project"], parse_iso(post.headers["leyden-time"])))
    return headers(post, webhook_signature=sign(secrets, post.headers["webhook-id"], stamp_s, post.body.decode()))


def changed_response(alter: Callable[[CallbackResponse], CallbackResponse]) -> Plant:
    """Change the response of a receiver."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, post, response: original(self, post, alter(response))

    return attribute(Outbox, "on_response", make)


def delivery(operation_id: str = "createCharge", **changes: Any) -> Edit:
    """Change an operation's `x-delivery`."""
    path, name = CALLBACKS[operation_id]

    def edit(document: Document) -> None:
        for rules in document["paths"][path]["post"]["callbacks"][name].values():
            rules["x-delivery"].update(changes)

    return edit


def attempts_at(make: Make, answers: list[Any], **fields: Any) -> list[int]:
    """The times, in seconds after the payment, at which the receiver with these answers got the callback."""
    with make() as sandbox:
        sandbox.receiver("shop").answers(answers)
        charge = new_charge(sandbox, callbackUrl=HOOK, **fields)
        sandbox.wallet("ana").pay(charge)
        started = sandbox.world.clock.now()
        sandbox.run()
        return [round((got.at - started) / 1_000) for got in inbox(sandbox)]


def enqueue_callback(service: Any, operation_id: str, charge_id: str, event: str, status: str, *, due: str) -> None:
    """Enqueue an unexpected callback about a Charge with a URL. `due` is the field with its time; past means now."""
    row = service.charges.charges.existing(charge_id)
    charge = charge_resource(row)
    if charge["callbackUrl"]:
        service.outbox.enqueue(
            resource_id=charge_id,
            project=row["project"],
            url=charge["callbackUrl"],
            rule=unchecked(service.contract.operations[operation_id].callbacks[0]),
            event=event,
            sequence=1,
            data={**charge_callback(row), "status": status},
            at=parse_iso(charge[due]),
        )
