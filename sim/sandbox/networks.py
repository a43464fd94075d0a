"""The Lightning network of a sandbox: its changes are recorded, and a notebook shows it as a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import wrap
from typing import Any

from leyden.arguments import payer_name
from leyden.lightning.network.network import Network, NetworkNode
from leyden.lightning.payer.routed_payments import RoutedPayments
from leyden.repr_tables import LONGEST, html_grid
from leyden.sandbox.session import Session

_COLUMNS = (
    "channel",
    "peer",
    "capacity_msat",
    "local_msat",
    "remote_msat",
    "in_flight_msat",
    "on_chain_msat",
    "closed",
)
_SHOWN = 20


class SandboxNode(NetworkNode):
    """A node of a sandbox's network."""

    def _repr_html_(self) -> str:
        channels = self.channels
        rows = [[row[name] for name in _COLUMNS] for row in channels[:_SHOWN]]  # type: ignore[literal-required]
        more = "" if len(channels) <= _SHOWN else f", the first {_SHOWN} of them:"
        return html_grid(_COLUMNS, rows, caption=f"{self!r}{more}")


class SandboxNetwork(Network):
    """The network of a sandbox."""

    def __init__(self, session: Session) -> None:
        payments = session.world.payments
        assert isinstance(payments, RoutedPayments)

        @contextmanager
        def record(call: str, args: list[Any], named: dict[str, Any]) -> Iterator[None]:
            with session.record("call", call=f"network{call}", args=args, named=named), session.world.exclusive():
                yield

        super().__init__(payments, record)

    def __getitem__(self, name: str) -> SandboxNode:
        return SandboxNode(self, name, self.operations.node(name), f"[{name!r}]")

    def wallet(self, name: str) -> SandboxNode:
        """As `Network.wallet`."""
        return SandboxNode(self, name, self.operations.payments.node_of(payer_name(name)), f".wallet({name!r})")

    def _repr_html_(self) -> str:
        """The text of the repr, and a table of the shop's channels."""
        first, *lines = repr(self).splitlines()
        facts = []
        for name, _, value in (line.strip().partition(": ") for line in lines):
            parts = wrap(value, LONGEST, break_long_words=False) or [""]
            facts += [(name, parts[0]), *(("", part) for part in parts[1:])]
        return html_grid(("", ""), facts, caption=first) + self["shop"]._repr_html_()
