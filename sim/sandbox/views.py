"""Looking: what a sandbox shows of itself, as tables and figures. Looking leaves no trace."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from leyden.repr_tables import html_table
from leyden.sandbox.time_control import Instant, instant_ms
from leyden.server.timestamps import to_iso
from leyden.world.world import World

if TYPE_CHECKING:
    from pandas import DataFrame

    from leyden.lab.drawings import Drawing
    from leyden.lab.kpi import Kpi

_AHEAD = 3


class Looking:
    """The part of a sandbox that is looked at. Every DataFrame is fresh; `leyden.lab.tables` has the columns."""

    world: World

    @property
    def label(self) -> str:
        """The name of this world in tables."""
        return self.world.label

    @property
    def payments(self) -> DataFrame:
        """Every payment of every wallet, the oldest first."""
        return self.table("payments")

    @property
    def attempts(self) -> DataFrame:
        """Every attempt to bring a part of a payment to the shop: where it went, what came back, what was learned."""
        return self.table("attempts")

    @property
    def htlcs(self) -> DataFrame:
        """Every HTLC on every hop."""
        return self.table("htlcs")

    @property
    def deliveries(self) -> DataFrame:
        """Every message for a receiver; its attempts are in `callbacks`."""
        return self.table("deliveries")

    @property
    def callbacks(self) -> DataFrame:
        """Every attempt to deliver a message, and how it was answered."""
        return self.table("callbacks")

    @property
    def balances(self) -> DataFrame:
        """Who holds how much now: the projects, the shop's node, and each side of each channel."""
        return self.table("balances")

    @property
    def journal(self) -> DataFrame:
        """Everything that happened, in order."""
        return self.table("journal")

    @property
    def journal_hash(self) -> str:
        """64 hex digits that depend on everything that happened: two runs with the same were the same run."""
        with self.world.exclusive():
            return self.world.journal.hash

    def table(self, name: str) -> DataFrame:
        """One of the tables, by its name. Raises `ValueError` with the names when there is none such."""
        # Here and not above: most sandboxes end without a table, and pandas takes longer to import than they to run.
        from leyden.lab.tables import frame

        with self.world.exclusive():
            return frame(self.world, name)

    def diff(self, other: Looking) -> DataFrame:
        """Which rows and fields differ: `table`, `id`, `field`, what it is `here` and what it is `there`."""
        from leyden.lab.diff import diff

        with self.world.exclusive(), other.world.exclusive():
            return diff(self.world, other.world)

    @property
    def kpi(self) -> Kpi:
        """The shop's figures over everything so far: `kpi.conversion`, `kpi.settle_s(.95)`, ..."""
        return self.kpis()

    def kpis(self, since: Instant | None = None, until: Instant | None = None) -> Kpi:
        """The same for the Charges created from `since` on and before `until`."""
        from leyden.lab.kpi import Kpi

        with self.world.exclusive():
            return Kpi(
                self.world,
                since_ms=None if since is None else instant_ms(since),
                until_ms=None if until is None else instant_ms(until),
            )

    def lifecycle(self, resource: str) -> Drawing:
        """The states of `Charge` or `StaticCharge`, with the ways that were taken and how often."""
        from leyden.lab.drawings import lifecycle

        with self.world.exclusive():
            return lifecycle(self.world, resource)

    def schedule(self) -> Drawing:
        """What is ahead, and the retries that each waiting message has left."""
        from leyden.lab.drawings import schedule

        with self.world.exclusive():
            return schedule(self.world)

    def liquidity(self) -> Drawing:
        """The network around the shop, with who holds how much in each channel."""
        from leyden.lab.drawings import network

        with self.world.exclusive():
            return network(self.world)

    def _card(self) -> tuple[str, list[tuple[str, Any]]]:
        world = self.world
        with world.exclusive():
            counted = Counter(row["status"] for row in world.service.charges.charges)
            charges = ", ".join(f"{count} {status}" for status, count in sorted(counted.items())) or "no charges yet"
            events = [f"{to_iso(timer.due_ms)} {timer.kind}" for timer in world.clock.upcoming(_AHEAD)]
            title = f"Sandbox(seed={world.config.seed})" + ("" if self.label == "main" else f" {self.label!r}")
            now = to_iso(world.clock.now())
        ahead = [("next" if not place else "", event) for place, event in enumerate(events or ["nothing"])]
        return title, [("now", now), ("charges", charges), *ahead]

    def __repr__(self) -> str:
        title, rows = self._card()
        (_, now), (_, charges), *ahead = rows
        return f"{title} at {now}\n  charges: {charges}\n  next: {'; '.join(event for _, event in ahead)}"

    def _repr_html_(self) -> str:
        title, rows = self._card()
        return html_table(rows, caption=title)
