"""The composition root: the one place where the parts of the service are built and connected to the ports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Set
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.callbacks.outbox import Outbox
from leyden.server.charges.callback_rules import check_callbacks
from leyden.server.charges.charges import ChargeService
from leyden.server.charges.lnurl_pay import LnurlPayService
from leyden.server.charges.static_charges import StaticChargeService
from leyden.server.contract.bind import bind
from leyden.server.contract.types import Contract
from leyden.server.errors import Problem
from leyden.server.gc_pause import unlink
from leyden.server.http.authentication import authenticate
from leyden.server.http.idempotency import Idempotency
from leyden.server.http.ignored_fields import IgnoredFields
from leyden.server.http.pipeline import PipelineContext
from leyden.server.http.projects import Projects
from leyden.server.ports import CallbackTransport, Clock, EventJournal, LightningNode, RandomSource
from leyden.server.store.store import Store
from leyden.server.version import VERSION


class Service:
    """A charge service over the given ports.

    `transaction` is entered around each request; by default it is a commit of the store. `report_ignored` is called
    with the text about each ignored field once, and returns what is shown of it. With `mock_unbound` an operation
    without a handler returns its example. Raises `ContractError` when the spec has an operation, guard or effect that
    no code implements.
    """

    def __init__(
        self,
        contract: Contract,
        store: Store,
        *,
        clock: Clock,
        node: LightningNode,
        transport: CallbackTransport,
        journal: EventJournal,
        new_id: Callable[[], str],
        jitter: RandomSource,
        secrets: RandomSource,
        public_url: Callable[[], str],
        transaction: Callable[[], AbstractContextManager[Any]] | None = None,
        wait_durable: Callable[[], Awaitable[None]] | None = None,
        rate_limit: Callable[[str], Problem | None] | None = None,
        defer_until: Callable[[DeliveryRow, int], int | None] | None = None,
        user_taken: Callable[[str], bool] | None = None,
        report_ignored: Callable[[str], str] = str,
        mock_unbound: bool = False,
    ) -> None:
        self.contract = contract
        self.store = store
        rules = {rule.name: rule for operation in contract.operations.values() for rule in operation.callbacks}
        # One secret signs all callbacks of a project: those that are sent have the same rotation.
        rotation_ms = max((rule.delivery.rotation_ms for rule in rules.values()), default=0)
        self.projects = Projects(store, clock, secrets, rotation_ms)
        self.outbox = Outbox(
            store,
            clock,
            transport,
            new_id=new_id,
            jitter=jitter,
            journal=journal,
            secrets=self.projects.secrets,
            rules=rules,
            version=VERSION,
            defer_until=defer_until,
        )
        self.charges = ChargeService(contract, store, clock, node, self.outbox, journal, new_id)
        self.static_charges = StaticChargeService(
            contract, store, clock, self.charges, journal, new_id, public_url, user_taken
        )
        self.lnurl_pay = LnurlPayService(contract, clock, self.charges, self.static_charges)
        self.handlers: Mapping[str, Callable[..., Any]] = bind(
            contract,
            [self.charges, self.static_charges, self.lnurl_pay],
            guards={"Charge": self.charges.guards, "StaticCharge": self.static_charges.guards},
            effects={"Charge": self.charges.effects, "StaticCharge": self.static_charges.effects},
            mock_unbound=mock_unbound,
        )
        check_callbacks(contract, self.handlers)
        api_key_header = contract.api_key_header.lower().encode()
        self.pipeline = PipelineContext(
            transaction=transaction or store.commit,
            authenticate=partial(authenticate, self.projects, api_key_header),
            idempotency=Idempotency(store, clock),
            journal=journal,
            wait_durable=wait_durable,
            rate_limit=rate_limit,
            ignored_fields=IgnoredFields(report_ignored),
            api_key_header=api_key_header,
        )

    def discard(self) -> None:
        """Nobody uses the service any more: none of its parts refers to another one afterwards, so that they are
        freed."""
        unlink((self.projects, self.outbox, self.charges, self.static_charges, self.lnurl_pay, self.pipeline, self))

    def resume(self, answerable: Set[tuple[str, int]] = frozenset()) -> None:
        """Set every timer from the stored rows. Timers that became due meanwhile fire at once, in order.

        `answerable` are the callback attempts in flight whose end is still reported (`Outbox.resume`).
        """
        self.charges.resume()
        self.static_charges.resume()
        self.outbox.resume(answerable)
