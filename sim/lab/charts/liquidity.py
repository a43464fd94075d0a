"""The shop's liquidity over time: the amounts that its channels could receive and send after each change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from leyden.errors import ArgumentError
from leyden.lightning.network.network_tables import BalanceRow, balances_of, htlcs_of
from leyden.server.timestamps import to_iso
from leyden.world.world import World

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ALONE, _NAMED = "leyden-liquidity-of-main", "leyden-liquidity"  # ids of lines without and with a sandbox's label
_OF_NODES = ("drained", "rebalanced")
_SENT = ("shop_spent", "shop_swapped_out")

_Change = tuple[int, int, int]  # an instant (ms), and how much more is inbound and outbound from then on


class Liquidity(NamedTuple):
    """The balances of the shop's open channels after an instant (ms): those of its peers, and its own."""

    at: int
    inbound_msat: int
    outbound_msat: int


def liquidity(world: World, ax: Axes | None) -> Axes:
    """The chart of `liquidity_history`. Raises `ValueError` when payments are direct."""
    from leyden.lab.charts.figures import amounts, axes, finish, instants, label_text, note_above, time_axis

    history = liquidity_history(world)
    ax = axes(ax, "liquidity")
    others = [each for each in ax.lines if each.get_gid() in (_ALONE, _NAMED)]
    whose = f"{label_text(world.label)}: " if others or world.label != "main" else ""
    for each in others:
        if each.get_gid() == _ALONE:  # its label does not say yet whose it is
            each.set(label=f"main: {each.get_label()}", gid=_NAMED)
    if len(history) > 1:
        at = instants([row.at for row in history])
        for name, balances in (
            ("inbound", [row.inbound_msat / 1_000 for row in history]),
            ("outbound", [row.outbound_msat / 1_000 for row in history]),
        ):
            ax.plot(at, balances, drawstyle="steps-post", label=f"{whose}{name}", gid=_NAMED if whose else _ALONE)
    time_axis(ax, history[0].at, history[-1].at)
    amounts(ax.yaxis)
    ax.set_ylabel("shop's balances (sat)")
    ax.set_ylim(bottom=0, auto=True)
    lost = world.journal.lost()
    note = f"the balances before {to_iso(history[0].at)} are unknown:\n{lost}" if lost else ""
    if note and len(history) > 1:
        note_above(ax, world.label, note)
    return finish(ax, note or "time has not moved")


def liquidity_history(world: World) -> list[Liquidity]:
    """The shop's liquidity from the start until now, with a row for each instant of a change. HTLCs in flight are in
    neither of the two amounts, and a closed channel's balances are not from its closing on.

    It follows from the initial balances, the HTLCs and the events of channels. The journal does not say which channels
    a drain or a rebalance of *another* node changed. Such changes in the shop's channels are shown at the instant of
    the last such event. Where the journal has not all (`HashedEventJournal.lost`) the history goes back from the
    present balances, to the later of two instants: the last such event, and the one from which the journal has all.
    Raises `ValueError` when payments are direct, and when payments were removed: their HTLCs are unknown then.
    """
    if world.engine is None:
        raise ArgumentError("payments are direct here: create the sandbox with network='scale-free:400'")
    without = world.removed.without("payments", " payments")
    if without:
        raise ArgumentError(
            f"the sandbox is {without}, so the history of its balances is unknown: sb.balances has those of now; run"
            " without spill= and without a bound to see it"
        )
    own = {row["channel"]: row for row in balances_of(world.payments, "shop")}
    shop = next((row["node"] for row in own.values()), "shop")
    changes: list[_Change] = []
    opened: set[int] = set()
    closed: dict[int, int] = {}
    lost_before_ms, now_ms = world.journal.lost_before_ms, world.clock.now()
    since_ms = world.config.start_ms if lost_before_ms is None else max(world.config.start_ms, lost_before_ms)
    unknown_ms, earned_msat = now_ms, 0
    for _, at_ms, kind, subject, facts in world.journal.entries():
        if kind in _OF_NODES and subject != shop:
            unknown_ms = at_ms
            if lost_before_ms is not None:
                since_ms = max(since_ms, at_ms)
        elif kind == "channel_opened" and facts["channel"] in own:
            row = own[facts["channel"]]
            opened.add(facts["channel"])
            changes.append((at_ms, row["capacity_msat"] - row["before_msat"], row["before_msat"]))
        elif kind in ("channel_closed", "channel_force_closed") and facts["channel"] in own:
            if facts["channel"] in closed:
                continue
            closed[facts["channel"]] = unknown_ms = at_ms
            balances = facts["balances_msat"] if subject == shop else facts["balances_msat"][::-1]
            changes.append((at_ms, -balances[1], -balances[0]))
        elif kind == "drained":
            moved = facts["outbound_msat"] - facts["inbound_msat"]
            changes.append((at_ms, moved, -moved))
        elif kind == "rebalanced":
            changes.append((at_ms, facts["fee_msat"], -facts["fee_msat"]))
        elif kind == "shop_forwarded":
            earned_msat += facts["earned_msat"]
            changes.append((at_ms, -facts["earned_msat"], facts["earned_msat"]))
        elif kind in _SENT:
            sent_msat = facts["amount_msat"] + facts["fees_msat"]
            changes.append((at_ms, sent_msat, -sent_msat))
    now = [row for row in own.values() if row["status"] not in ("closing", "closed")]
    now_inbound, now_outbound = sum(row["remote_msat"] for row in now), sum(row["local_msat"] for row in now)
    if lost_before_ms is None:
        # A sandbox that an earlier version saved has no entries for the fees that it had earned.
        rest_msat = world.engine.background.earned_msat - earned_msat
        changes.append((now_ms, -rest_msat, rest_msat))
        changes += _moved(world, own, closed)
        first = [row for channel, row in own.items() if channel not in opened]
        inbound = sum(row["capacity_msat"] - row["before_msat"] for row in first)
        outbound = sum(row["before_msat"] for row in first)
        unknown = [now_inbound - inbound, now_outbound - outbound]
        changes.append(
            (
                unknown_ms,
                unknown[0] - sum(change[1] for change in changes),
                unknown[1] - sum(change[2] for change in changes),
            )
        )
    else:
        known = {row["channel"]: row for row in now} | {channel: own[channel] for channel in closed}
        changes = [one for one in [*changes, *_moved(world, known, closed)] if one[0] > since_ms]
        inbound = now_inbound - sum(change[1] for change in changes)
        outbound = now_outbound - sum(change[2] for change in changes)
    history = {since_ms: Liquidity(since_ms, inbound, outbound)}
    for at_ms, more_inbound, more_outbound in sorted(changes, key=lambda change: change[0]):
        inbound, outbound = inbound + more_inbound, outbound + more_outbound
        history[at_ms] = Liquidity(at_ms, inbound, outbound)
    history[now_ms] = Liquidity(now_ms, inbound, outbound)
    return list(history.values())


def _moved(world: World, own: dict[int, BalanceRow], closed: dict[int, int]) -> Iterator[_Change]:
    """The changes of balances by each HTLC on these channels, with their instants. The balance of the side that offers
    the HTLC decreases at once. When the HTLC is resolved, the balance of the other side increases, or that of the same
    side again."""
    for row in htlcs_of(world.payments):
        if row["channel"] not in own:
            continue
        is_out = row["source"] == own[row["channel"]]["node"]
        end_ms = closed.get(row["channel"])
        for at_ms, amount_msat, on_own_side in (
            (row["at"], -row["amount_msat"], is_out),
            (row["resolved_at"], row["amount_msat"], is_out == (row["status"] == "failed")),
        ):
            if at_ms is not None and (end_ms is None or at_ms <= end_ms):
                yield (at_ms, 0, amount_msat) if on_own_side else (at_ms, amount_msat, 0)
