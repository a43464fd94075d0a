"""A system clock that was set: what it means for the clock of a served sandbox, and `--start now`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.devserver.unserved_urls import unserved_texts
from leyden.server.charges.charges import TIMER as CHARGE_TIMER
from leyden.server.charges.static_charges import TIMER as STATIC_CHARGE_TIMER
from leyden.server.errors import StoreError
from leyden.server.timestamps import to_iso
from leyden.world.persistence.world_state import follows_again
from leyden.world.world import World

KIND, SUBJECT = "clock", "system clock"  # of the entries in the event journal
_BACK_MS = 1_000  # a system clock that is earlier by more than this was set back
_WORTH_SAYING_MS = 60_000
_BEHIND_MS = 5_000  # less than that is the time in which a busy machine starts a server
_LONG_STOP_MS = 86_400_000
_MAX_NOTES = 100
_MEND = "leyden serve --start now sets it to the system clock"
_RESET = "a reset with the start now begins at the system clock"
_NETWORK_STAYS = "the state of a simulated network cannot go back"
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))


def note(world: World, text: str) -> None:
    """Add the text to the notes of the sandbox about its present run, and to its event journal. A reset and a restore,
    which begin another run, remove these notes.

    What is due does not run before, as it does in a transaction: the server may not have started, and callbacks are
    sent by its event loop.
    """
    if len(world.run_notes) < _MAX_NOTES:
        world.run_notes.append(text)
        with world.lock, world.store.commit():
            world.journal.note(KIND, SUBJECT, text=text)


def shown_notes(world: World) -> list[str]:
    """The notes of the sandbox: about its directory, its document and its present run, and what is so now: its clock is
    behind, or its journal cannot be compacted."""
    unserved = unserved_texts(world.config.contract)
    present = (_behind_text(world), world.store.warning)
    return [*world.notes, *unserved, *world.run_notes, *(text for text in present if text)]


def _behind_text(world: World) -> str | None:
    """That a clock in real time is behind the system clock, as after a reset, a restore or a pause; else None."""
    behind_ms = _behind_ms(world)
    if behind_ms < _BEHIND_MS:
        return None
    return (
        f"the sandbox's clock is {span_text(behind_ms)} behind the system clock: an expiresAt may be in the past for a"
        f" client{_forward_mends(world)}"
    )


def note_reset(world: World) -> None:
    """Note that the run of a reset is ahead of the system clock, as after a first start while that clock was wrong."""
    ahead_ms = -_behind_ms(world)
    if ahead_ms >= _WORTH_SAYING_MS:
        note(world, f"the sandbox's clock is {span_text(ahead_ms)} ahead of the system clock{_back_mends(world)}")


def _behind_ms(world: World) -> int:
    """By how much a clock in real time is behind the system clock; 0 for a clock at another rate."""
    clock = world.clock
    time_base = clock.time_base
    return 0 if clock.rate != 1 or time_base is None else time_base[1] - time_base[0]


def change_text(world: World, change_ms: int) -> str:
    """The effect of a change of the system clock during the run, and what sets the sandbox's clock to it."""
    direction = "forward" if change_ms > 0 else "back"
    mends = _forward_mends(world) if change_ms > 0 else _back_mends(world)
    return (
        f"the system clock was set {direction} by {span_text(abs(change_ms))}: a clock that runs does not follow"
        f" it{mends}"
    )


def _forward_mends(world: World) -> str:
    """What brings a clock that is behind to the system clock, each after a semicolon."""
    mends = [f"POST /sandbox/v1/clock/advance moves it, and {_RESET}"] if world.config.control is not None else []
    return "".join(f"; {mend}" for mend in [*mends, *([_MEND] if world.can_start_now else [])])


def _back_mends(world: World) -> str:
    """What brings a clock that is ahead to the system clock, each after a semicolon."""
    mends = [_RESET] if world.config.control is not None else []
    if world.can_start_now and world.config.network == "direct":
        mends.append(f"{_MEND} when what was created after that has ended")
    return "".join(f"; {mend}" for mend in mends)


def opened_texts(
    saved: Mapping[str, Any], rate: float, now_ms: int, ahead_mend: Callable[[], str] = lambda: _MEND
) -> list[str]:
    """A note about the running clock of a stored sandbox (`WorldState.saved`), which is opened at the real time
    `now_ms`. `ahead_mend` gives the mend for a clock that is ahead of it."""
    if not rate or not saved["rate"] or saved["time_base"] is None:
        return []
    base_ms, real_base_ms = saved["time_base"]
    if follows_again(saved, rate, now_ms):
        return [
            f"the sandbox's clock was {span_text(base_ms - real_base_ms)} ahead of the system clock, which has passed"
            f" it since: it was set forward by {span_text(now_ms - saved['now'])} to the system clock, and what"
            " fell due runs"
        ]
    written_ms = real_base_ms + round((saved["now"] - base_ms) / saved["rate"])
    stopped_ms = now_ms - written_ms
    texts = []
    if stopped_ms < -_BACK_MS:
        texts.append(
            f"the system clock is {span_text(-stopped_ms)} earlier than when the sandbox was used last: its clock goes"
            f" on from {to_iso(saved['now'])}"
        )
    elif stopped_ms >= _LONG_STOP_MS:
        texts.append(f"by the system clock the server was stopped for {span_text(stopped_ms)}: what fell due runs")
    # `VirtualClock.resume_from`: until now the clock has run at its saved rate.
    ahead_ms = saved["now"] + max(0, int(stopped_ms * saved["rate"])) - now_ms
    if rate == 1 and ahead_ms >= _WORTH_SAYING_MS:  # that it is behind, `shown_notes` says
        texts.append(f"the sandbox's clock is {span_text(ahead_ms)} ahead of the system clock; {ahead_mend()}")
    return texts


def start_now(world: World, saved_ms: int, now_ms: int) -> str:
    """Set the clock of a stored sandbox, at `saved_ms` when it was used last, to the real time `now_ms`, and say what
    was done.

    Forward, time passes and what is due runs, on a paused clock when the server runs. Back, every row keeps its
    instants: `check_start_now` has found nothing open that was created after `now_ms`.
    """
    clock, by_ms = world.clock, _ahead_by_ms(world, now_ms)
    if by_ms < 0:
        clock.set_back(now_ms)
        text = (
            f"the clock was set back by {span_text(-by_ms)} to the system clock: what was created later keeps its"
            " instants"
        )
    else:
        if clock.rate:
            clock.add_elapsed(by_ms)
        else:
            world.start_at_ms = now_ms  # callbacks are sent by the event loop of the server
        # A clock that ran has followed the system clock meanwhile.
        text = f"the clock was set forward by {span_text(now_ms - saved_ms)} to the system clock: what fell due runs"
    world.keep_time()
    return text


def check_start_now(world: World, now_ms: int) -> None:
    """Raise `StoreError` if `start_now` would set the clock back, and something is open that was created after that.
    Nothing changes."""
    by_ms = _ahead_by_ms(world, now_ms)
    if by_ms < 0:
        _check_can_go_back(world, now_ms, -by_ms)


def _ahead_by_ms(world: World, now_ms: int) -> int:
    """By how much the real time is ahead of the sandbox's clock."""
    clock = world.clock
    time_base = clock.time_base
    assert time_base is not None  # a served world has a real clock
    base_ms, real_base_ms = time_base
    return now_ms - max(clock.last_seen, base_ms + int((now_ms - real_base_ms) * clock.rate))


def mend_ahead(world: World, now_ms: int) -> str:
    """How a sandbox that is ahead of the system clock, `now_ms`, gets its time."""
    if world.config.network != "direct":
        return f"{_NETWORK_STAYS}: a new --data begins at the system clock"
    waiting = _waiting_text(world, now_ms)
    return _MEND if waiting is None else f"{_MEND} when what was waiting at the start has ended: {waiting}"


def _check_can_go_back(world: World, now_ms: int, by_ms: int) -> None:
    what = f"--start now would set the clock back by {span_text(by_ms)}"
    if world.config.network != "direct":
        raise StoreError(f"{what}, and {_NETWORK_STAYS}: use a new --data")
    waiting = _waiting_text(world, now_ms)
    if waiting is not None:
        raise StoreError(
            f"{what}, but there are {waiting}: start without it and advance the clock until they have ended, or use a"
            " new --data"
        )


def _waiting_text(world: World, now_ms: int) -> str | None:
    """What has to end before the clock can go back to `now_ms`, or None."""
    charges = world.service.charges.charges
    later = sum(row["created_at"] > now_ms for row in charges.find("status", "pending"))
    others = sum(timer[3] not in (CHARGE_TIMER, STATIC_CHARGE_TIMER) for timer in world.clock.timers())
    if not (later or others):
        return None
    return (
        f"{later} pending Charge(s) that were created after that and {others} other scheduled event(s) (callbacks,"
        " payments, traffic)"
    )


def span_text(span_ms: int) -> str:
    """A span in its two largest units, such as `400 days 2 hours`."""
    parts = []
    span_ms = (span_ms + 500) // 1_000 * 1_000 if span_ms >= 1_000 else 0
    for unit_ms, name in _UNITS:
        count, span_ms = divmod(span_ms, unit_ms)
        if count:
            parts.append(f"{count} {name}{'' if count == 1 else 's'}")
        elif parts:
            break
    return " ".join(parts[:2]) or "less than a second"
