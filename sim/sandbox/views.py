"""Views of a world: tables, figures and the card that shows a sandbox. A view changes and records nothing."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from leyden.arguments import check_milliseconds, methods_with_hints
from leyden.errors import ArgumentError
from leyden.extras import require
from leyden.lab.charts.plots import Plots
from leyden.lab.kpi import Kpi
from leyden.repr_tables import html_table
from leyden.sandbox.session import Session
from leyden.sandbox.time.scheduled_actions import Scheduled, ScheduledActions
from leyden.sandbox.time.spans import Instant, instant_ms
from leyden.server.printable import quoted
from leyden.server.timestamps import to_iso
from leyden.world.interrupts import interrupts
from leyden.world.world import World

if TYPE_CHECKING:
    from pandas import DataFrame

    from leyden.lab.drawings import Drawing

_EVENTS_SHOWN = 3
# The counts of removed rows, each with what it counts.
_REMOVED = {"charges": "charges", "staticCharges": "Static Charges", "payments": "payments", "deliveries": "callbacks"}
_SECRET = "/sandbox/v1/webhook-secret"
# Names that are looked for here, and what does their work.
_INSTEAD = {
    "clock": "read now, and move time with run(...), advance(...) or advance_to(...)",
    "pay": "call wallet(NAME).pay(charge)",
    "requests": 'call ask("GET", "/sandbox/v1/requests")',
    "reset": 'call ask("POST", "/sandbox/v1/reset", {})',
    "wait": 'call ask("POST", "/sandbox/v1/deliveries/wait", {"count": 1})',
    "webhook_secret": f'call ask("GET", "{_SECRET}")["current"]',
    **dict.fromkeys(("rotate", "rotate_secret"), f'call ask("POST", "{_SECRET}/rotate", {{}})'),
}


@methods_with_hints
class Views:
    """The views of a sandbox: tables, figures and drawings."""

    session: Session
    _actions: ScheduledActions
    _instead: ClassVar[Mapping[str, str]] = _INSTEAD

    @property
    def world(self) -> World:
        """The simulation behind the sandbox, for code that needs more than the sandbox offers."""
        return self.session.world

    @property
    def seed(self) -> int:
        """The seed of the present run. A reset can change it."""
        with self.session.world.exclusive():
            return self.session.world.config.seed

    # Tables and figures: every DataFrame is new; `leyden.lab.tables` describes the columns. They need pandas.

    @property
    def payments(self) -> DataFrame:
        """All payments of all wallets, oldest first."""
        return self.table("payments")

    @property
    def attempts(self) -> DataFrame:
        """All attempts to send a part of a payment: the route, the failure and what the payer learned from it."""
        return self.table("attempts")

    @property
    def htlcs(self) -> DataFrame:
        """All HTLCs on all hops."""
        return self.table("htlcs")

    @property
    def deliveries(self) -> DataFrame:
        """All messages for receivers; their attempts are in `callbacks`."""
        return self.table("deliveries")

    @property
    def callbacks(self) -> DataFrame:
        """All attempts to deliver a message, with their responses."""
        return self.table("callbacks")

    @property
    def balances(self) -> DataFrame:
        """The present balances: what projects and the shop's node have received, and each side of each channel."""
        return self.table("balances")

    @property
    def outages(self) -> DataFrame:
        """The times in which a node of the network was offline, until now."""
        return self.table("outages")

    @property
    def journal(self) -> DataFrame:
        """All events, in order, since this sandbox was made or its directory `data` was opened: it keeps no journal.
        A copy of a sandbox has the same. It lacks those that a bound removed.

        Of a run with `spill`, the files have all events, and this one the last of them only: take those of the files
        (`leyden.read(directory)`), and do not add these."""
        return self.table("journal")

    def facts(self, kind: str) -> DataFrame:
        """The events of one kind in `journal`, `sb.facts("payment_settled")`, with a column for each of their facts.

        Raises `ValueError`, with the kinds that the journal has, for any other.
        """
        journal = table(self.world, "journal", "sb.facts()")
        from leyden.lab.tables import facts_of

        return facts_of(journal, kind, self.world.journal.lost())

    @property
    def journal_hash(self) -> str:
        """64 hex digits that depend on all events in `journal`: equal hashes mean equal runs, where the journal has all
        of the run. That of a directory that was opened again has what happened since.

        Values that depend on real time or on the webhook secret are left out: the facts `realTime` and
        `secretDependent` of an event name them.
        """
        with self.world.exclusive():
            return self.world.journal.hash

    def table(self, name: str) -> DataFrame:
        """One of the tables, by its name. Raises `ValueError` with the names for an unknown one."""
        return table(self.world, name, f"sb.{quoted(name, 60)[1:-1]}")

    def diff(self, other: Views) -> DataFrame:
        """The rows and fields that differ: `table`, `id`, `field`, and the values `here` and `there`.

        Compared are the tables without `journal`, and what was set: the clock, seed and start (`sandbox`), the times of
        `webhook_secrets`, `faults`, `service_faults`, `payers`, `receivers`, `traffic` and `interceptors`. Not compared
        are the journal, API keys, the rate of the clock, the posts of inboxes besides their number, what faults and
        inboxes delay, returning customers, responses kept for an Idempotency-Key, and the random numbers to come.

        Warns when rows that one of the two has were removed from the other: they are listed as differences."""
        if not isinstance(other, Views):
            raise ArgumentError(f"{quoted(other, 60)} is no sandbox: give a sandbox, for example a fork")
        return diff(self.world, other.world)

    @property
    def kpi(self) -> Kpi:
        """The shop's figures over everything so far: `kpi.conversion`, `kpi.settle_s(.95)`, ..."""
        return self.kpis()

    def kpis(self, since: Instant | None = None, until: Instant | None = None) -> Kpi:
        """The same for the Charges created from `since` (included) to `until` (excluded).

        Raises `ValueError` when `until` is before `since`.
        """
        for when in (since, until):
            check_milliseconds(when, self.world.clock.now())
        since_ms, until_ms = (None if when is None else instant_ms(when) for when in (since, until))
        with self.world.exclusive():
            return Kpi(self.world, since_ms=since_ms, until_ms=until_ms)

    # Charts and drawings

    @property
    def plot(self) -> Plots:
        """Charts by matplotlib: `plot.conversion("1h")`, `plot.settle_times()`, `plot.liquidity()`, ..."""
        _ = self.world
        return Plots(lambda: self.session.world)

    def lifecycle(self, resource: str) -> Drawing:
        """The state diagram of `Charge` or `StaticCharge`, with the number of times each transition was taken."""
        from leyden.lab.drawings import lifecycle

        with self.world.exclusive():
            return lifecycle(self.world, resource)

    def schedule(self) -> Drawing:
        """The scheduled events, the actions of `at` and `every`, and the remaining retries of each pending message."""
        from leyden.lab.drawings import schedule
        from leyden.lab.drawings.schedules import Action

        with self.world.exclusive():
            return schedule(self.world, [Action(row.at_ms, row.name, row.again) for row in self._actions.ahead()])

    def liquidity(self) -> Drawing:
        """The network around the shop, with the balances of each channel."""
        from leyden.lab.drawings import network

        with self.world.exclusive():
            return network(self.world)

    def __repr__(self) -> str:
        if self.session.is_closed:
            return "Sandbox(closed)"
        title, rows = card(self.world, self._actions.ahead())
        (_, now), (_, charges), *events = rows
        return f"{title} at {now}\n  charges: {charges}\n  next: {'; '.join(event for _, event in events)}"

    def _repr_html_(self) -> str:
        title, rows = card(self.world, self._actions.ahead())
        return html_table(rows, caption=title)


def table(world: World, name: str, what: str) -> DataFrame:
    """A table by its name. `what` needs pandas, says the error when it is missing."""
    require(what, "pandas", "lab")
    # Not at the top: pandas takes longer to import than most sandboxes run.
    with interrupts.deferred():
        from leyden.lab.tables import frame

    with world.exclusive():
        return frame(world, name)


def diff(here: World, there: World) -> DataFrame:
    """The differences between two worlds. Needs pandas."""
    require("sb.diff()", "pandas", "lab")
    with interrupts.deferred():
        from leyden.lab.diff import diff

    with here.exclusive(), there.exclusive():
        if (removed := [world.removed.counts() for world in (here, there)])[0] != removed[1]:
            _warn_of_removed(here, there)
        return diff(here, there)


def _warn_of_removed(here: World, there: World) -> None:
    """Warn if rows were removed of one world and not of the other."""
    for name, word in _REMOVED.items():
        if here.removed.counts()[name] != there.removed.counts()[name]:
            notes = [world.removed.without(name, f" {word}") for world in (here, there)]
            sides = [f"{side} is {note}" for side, note in zip(("here", "there"), notes, strict=True) if note]
            warnings.warn(f"{', '.join(sides)}: rows of one side only are listed as differences", stacklevel=5)
            return


def card(world: World, ahead: Sequence[Scheduled] = ()) -> tuple[str, list[tuple[str, str]]]:
    """A sandbox in a few lines: a title, and rows for the clock, the charges by status and what is next: events, and
    the actions `ahead`."""
    with world.exclusive():
        counted = Counter(row["status"] for row in world.service.charges.charges)
        by_status = [f"{count} {status}" for status, count in sorted(counted.items())]
        without = world.removed.without("charges")
        if by_status:
            charges = ", ".join([*by_status, *([without] if without else [])])
        else:
            charges = world.removed.nothing("charges", "none") if without else "no charges yet"
        following = [(timer.due_ms, timer.kind) for timer in world.clock.upcoming(_EVENTS_SHOWN)]
        following += [(row.at_ms, f"action {quoted(row.name, 40)[1:-1]}") for row in ahead[:_EVENTS_SHOWN]]
        following = sorted(following, key=lambda one: one[0])[:_EVENTS_SHOWN]
        events = [f"{to_iso(at_ms)} {what}" for at_ms, what in following]
        title = f"Sandbox(seed={world.config.seed})" + ("" if world.label == "main" else f" {world.label!r}")
        now = to_iso(world.clock.now())
    rows = [("next" if not place else "", event) for place, event in enumerate(events or ["nothing"])]
    return title, [("now", now), ("charges", charges), *rows]
