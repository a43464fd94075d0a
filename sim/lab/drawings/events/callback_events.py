"""The events of the callbacks of one Charge: their attempts, what faults did to them, their replays and their end.

An arrow from the service to a receiver is a message that was sent, or a connection that failed; an arrow back is what
came from the receiver. That a message was sent is said of one that is known to have left the service only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import cast
from urllib.parse import urlsplit

from leyden.callbacks.callback_rows import HitEventRow, LateReplyRow, RequestRow, WaitingRow, attempt_of
from leyden.callbacks.faults.faults import COPY_ANSWERED, COPY_STARTED
from leyden.callbacks.faults.faults import TIMER as FAULT
from leyden.callbacks.faults.hits import APPLIED, HELD, UNMET
from leyden.callbacks.faults.kinds import HOLDING_KINDS
from leyden.callbacks.receivers import TIMER as RESPONSE
from leyden.callbacks.replies import NOT_RECEIVED, PROTOCOL, REFUSED, RESET, TIMEOUT, TLS, never_left
from leyden.lab.drawings.events.payment_events import CALLBACK, SERVICE, Event
from leyden.lab.drawings.svg import BAD, GOOD, OPEN, OTHER, WAIT, clock_time, day
from leyden.server.callbacks.attempts import Attempt, AttemptLog
from leyden.server.callbacks.deliveries import BLOCKED, EXHAUSTED, GONE, LOST, PENDING, STOPPED, stopped_note
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.store.typed_table import TypedTable
from leyden.server.timestamps import span_in_words
from leyden.world.world import World

_FROM_RECEIVERS = frozenset({RESET, PROTOCOL})  # errors of attempts in which the receiver was heard
_FAILED_CONNECTIONS = frozenset({REFUSED, TLS})
_UNSENT_COPY = frozenset({BLOCKED, *NOT_RECEIVED})
_FAULT_WORDS = {APPLIED: "applies to", HELD: "holds", UNMET: "had no effect on"}


def callback_events(world: World, row: DeliveryRow) -> Iterator[Event]:
    """What happened to a delivery so far, in no order."""
    yield from _delivery_events(world, row)
    yield from _stop_events(row)
    yield from _replay_events(world, row)
    yield from _fault_events(world, row)


def _delivery_events(world: World, row: DeliveryRow) -> Iterator[Event]:
    """The attempts of a delivery: one event for one that began and ended in an instant, else its start and its end."""
    host, key = host_of(row["url"]), (CALLBACK, row["id"])
    attempts = AttemptLog(row).attempts()
    ends, reached = _former_ends(row, attempts), _reached(world, row)
    over = row["status"] != PENDING and not stopped_note(row)
    for number, attempt in enumerate(attempts, 1):
        rank, words = (26, row["sequence"], number), f"callback {number}"
        more, opens = (f"{row['event']} to {row['url']}", key) if number == 1 else ("", None)
        response, tone = response_of(attempt)
        result, closes = ends.get(number, ""), None
        if over and number == len(attempts):
            result, closes = _result(row["status"], number), key
        result = "" if result == response else result
        is_dropped = world.faults.hits.is_dropped(row["id"], number)
        is_unsent = is_dropped or never_left(attempt)
        source = CALLBACK if attempt.status is not None or attempt.error in _FROM_RECEIVERS else SERVICE
        target = SERVICE if is_unsent and attempt.error not in _FAILED_CONNECTIONS else CALLBACK
        noted = ("callback_started", row["id"], number)
        start = Event(attempt.at, rank, SERVICE, target, words, more, tone, host, opens=opens, noted=noted)
        if attempt.ended_at == attempt.at:
            response = " · ".join(filter(None, [response, result]))
            if source == CALLBACK:
                yield start._replace(response=response, closes=closes)
            else:
                yield start._replace(text=f"{words}: {response}", closes=closes)
            continue
        begins = "sent" if _left(attempt) or number in reached else "starts"
        yield start._replace(text=f"{words} {'is dropped by a fault' if is_dropped else begins}", tone=OPEN)
        if attempt.ended_at is not None:
            details = " · ".join(filter(None, [_duration(attempt, attempt.ended_at - attempt.at), result]))
            words = f"{words}: {response}"
            end = Event(attempt.ended_at, (*rank, 1), source, SERVICE, words, details, tone, host, closes=closes)
            yield end._replace(noted=("callback_ended", row["id"], number))


def _left(attempt: Attempt) -> bool:
    """Whether the message is known to have left the service, if no fault has dropped it. Of an attempt in flight, and
    of one that is lost, that is not known."""
    return attempt.ended_at is not None and attempt.error != LOST and not never_left(attempt)


def _reached(world: World, row: DeliveryRow) -> frozenset[int]:
    """The attempts that a built-in receiver has got and will answer later."""
    late = cast(TypedTable[LateReplyRow], world.store.table("late_answers"))
    posts = [one["post"] for one in late if one["reply"]["error"] not in NOT_RECEIVED]
    found = (attempt_of(post) for post in posts if not post["copied_by"])
    return frozenset(number for delivery_id, number in found if delivery_id == row["id"])


def _stop_events(row: DeliveryRow) -> Iterator[Event]:
    """The end of a delivery by a 410 to another callback. A row of an earlier version has no instant of it."""
    attempts, orders = AttemptLog(row).attempts(), row.get("replay_orders", [])
    stopped_at, is_over = row.get("stopped_at"), bool(stopped_note(row))
    if stopped_at is None and is_over:
        stopped_at = (attempts[-1].ended_at if attempts else None) or row["created_at"]
    if stopped_at is None:
        return
    before = orders[0]["attempts"] if orders else len(attempts)  # it was stopped before any replay
    words, more = "callback stopped" if before else "no callback", "another callback to this URL was answered 410"
    rank, closes = (26, row["sequence"], before, 1.5), (CALLBACK, row["id"]) if is_over and before else None
    noted = ("callback_finished", row["id"], 0)
    yield Event(stopped_at, rank, SERVICE, SERVICE, words, more, WAIT, closes=closes, noted=noted)


def _duration(attempt: Attempt, clock_ms: int) -> str:
    """How long an attempt took; empty if it is not known. Of one on the network that is real time, which the clock need
    not show."""
    if attempt.error == LOST:
        return ""
    if attempt.latency_ms == clock_ms:
        return f"after {span_in_words(clock_ms)}"
    return f"after {span_in_words(attempt.latency_ms)} in real time"


def response_of(attempt: Attempt) -> tuple[str, str]:
    """A receiver's response as text, and its tone."""
    if attempt.status is None:
        return attempt.error or "no answer yet", BAD if attempt.error else WAIT
    return str(attempt.status), GOOD if 200 <= attempt.status <= 299 else BAD


def _former_ends(row: DeliveryRow, attempts: Sequence[Attempt]) -> Mapping[int, str]:
    """How the delivery had ended before its replays, by the number of the attempt that was the last then."""
    found: dict[int, str] = {}
    for order in row.get("replay_orders", ()):
        number, ended = order["attempts"], order.get("ended", "")
        is_of_attempt = number > 0 and not (ended == STOPPED and attempts[number - 1].status != GONE)
        if ended and is_of_attempt:
            found.setdefault(number, _result(ended, number))
    return found


def _result(status: str, attempts: int) -> str:
    return f"exhausted after {attempts} attempts" if status == EXHAUSTED else status


def _fault_events(world: World, row: DeliveryRow) -> Iterator[Event]:
    """What faults did to a delivery, and the copies of its message. An attempt has at most one copy."""
    host, sequence = host_of(row["url"]), row["sequence"]
    happened = list(world.faults.hits.events(row["id"], [one.at for one in AttemptLog(row).attempts()]))
    unsent = {number for number, event in happened if _is_unsent_copy(event)}
    ended = {number for number, event in happened if event["event"] not in (COPY_STARTED, *_FAULT_WORDS)}
    alike: Counter[tuple[int, str]] = Counter()
    for place, (number, event) in enumerate(happened):
        at, fault, answer = event["at"], event["fault"], event["answer"]
        rank = (26, sequence, number, 1, place)
        nth = alike[at, event["event"]]
        alike[at, event["event"]] += 1
        if event["event"] in _FAULT_WORDS:
            does = _FAULT_WORDS[event["event"]]
            if event["event"] == UNMET and fault in HOLDING_KINDS:
                does = "had no effect but the delay on"
            words, more = f"fault: {fault}", f"{does} callback {number}"
            # What changes a message comes before the message, although the journal notes it after its start; that a
            # copy had no effect comes after the copy.
            is_of_copy = event["event"] == UNMET and fault not in HOLDING_KINDS
            kind = "callback_started" if event["event"] == APPLIED and fault not in HOLDING_KINDS else event["event"]
            yield Event(
                at,
                rank if is_of_copy else (26, sequence, number - 0.5, place),
                CALLBACK,
                CALLBACK,
                words,
                more,
                OTHER,
                host,
                noted=(kind, row["id"], number),
            )
        elif event["event"] == COPY_STARTED:
            target = SERVICE if number in unsent else CALLBACK
            words = "copy sent" if number in ended - unsent else "copy is due"
            yield Event(
                at,
                rank,
                SERVICE,
                target,
                words,
                f"by the fault {fault}",
                OTHER,
                host,
                noted=(COPY_STARTED, row["id"], nth),
            )
        else:
            heard = event["event"] == COPY_ANSWERED or answer in _FROM_RECEIVERS
            yield Event(
                at,
                rank,
                CALLBACK if heard else SERVICE,
                SERVICE,
                f"copy: {answer}",
                "",
                OTHER,
                host,
                noted=(event["event"], row["id"], nth),
            )


def _is_unsent_copy(event: HitEventRow) -> bool:
    """Whether the event says that a copy was never sent."""
    if event["event"] == UNMET:
        return event["fault"] not in HOLDING_KINDS
    return event["answer"] in _UNSENT_COPY


def _replay_events(world: World, row: DeliveryRow) -> Iterator[Event]:
    """The requests to send the message. One after which there was no attempt yet is replaced by the next."""
    sequence, orders, attempts = row["sequence"], row.get("replay_orders", []), AttemptLog(row).attempts()
    dropped = [world.faults.hits.is_dropped(row["id"], number) for number in range(1, len(attempts) + 1)]
    unsent = (never_left(attempt) or dropped[place] for place, attempt in enumerate(attempts))
    first_sent = next((place for place, is_unsent in enumerate(unsent) if not is_unsent), len(attempts))
    reached, alike = _reached(world, row), Counter[int]()
    for place, order in enumerate(orders):
        at, due_at, number = order["at"], order["due_at"], order["attempts"]
        before, after = orders[place - 1] if place else None, orders[place + 1] if place + 1 < len(orders) else None
        again = " again" if first_sent < number else ""
        words, more = "replay", f"the message is to be sent{again}"
        if due_at > at:
            words, more = "replay is ordered", f"{more} at {until_text(due_at, at)}"
        elif number < len(attempts) and (after is None or after["attempts"] > number):
            attempt = attempts[number]
            if never_left(attempt):
                more = f"the message cannot be sent{again}: {attempt.error}"
            elif (_left(attempt) and not dropped[number]) or number + 1 in reached:
                more = f"the message is sent{again}"
        if before is not None and before["attempts"] == number:
            is_other = before["due_at"] != due_at
            more += f", instead of at {until_text(before['due_at'], at)}" if is_other else ", as was ordered before"
        rank, noted = (26, sequence, number, 2, place), ("callback_replayed", row["id"], alike[at])
        alike[at] += 1
        yield Event(at, rank, SERVICE, SERVICE, words, more, OTHER, noted=noted)


def callback_waits(world: World, delivery_id: str | None = None) -> Iterator[tuple[str, str, Event]]:
    """What is scheduled for attempts that were made, of one delivery or of all: the responses of receivers, the
    time-outs of dropped attempts, and the copies that faults send. Each with the kind and the key of its timer."""
    late = cast(TypedTable[LateReplyRow], world.store.table("late_answers"))
    posts = cast(TypedTable[WaitingRow], world.store.table("fault_posts"))
    for row in late:
        found, number = attempt_of(row["post"])
        if "due_at" not in row or delivery_id not in (None, found):
            continue
        host, what = host_of(row["post"]["url"]), "the copy" if row["post"]["copied_by"] else f"callback {number}"
        source, words, tone = CALLBACK, f"{host} responds to {what}", OPEN
        error = row["reply"]["error"]
        if error == TIMEOUT:
            source, words, tone = SERVICE, f"{what} times out", WAIT
        elif error in NOT_RECEIVED:
            source, words, tone = SERVICE, f"{what} fails: {error}", WAIT
        yield RESPONSE, row["id"], _wait_event(world, row["post"], row["due_at"], source, SERVICE, words, "", tone)
    for waiting in posts:
        found, number = attempt_of(waiting["post"])
        if delivery_id not in (None, found):
            continue
        target, words, more, tone = SERVICE, f"callback {number} times out", "a fault has dropped it", WAIT
        if waiting["is_copy"]:
            target, words, more, tone = CALLBACK, "copy is due", "by a fault", OTHER
        event = _wait_event(world, waiting["post"], waiting["due_at"], SERVICE, target, words, more, tone)
        yield FAULT, waiting["id"], event


def _wait_event(
    world: World, post: RequestRow, at: int, source: str, target: str, words: str, more: str, tone: str
) -> Event:
    delivery_id, number = attempt_of(post)
    delivery = world.service.outbox.delivery(delivery_id)
    rank = (26, 0 if delivery is None else delivery["sequence"], number)
    more = more or ("" if delivery is None else delivery["event"])
    return Event(at, rank, source, target, words, more, tone, host_of(post["url"]))


def until_text(end: int, at: int) -> str:
    """The end of a span that begins at `at`, with its date when it is on another day."""
    return clock_time(end) if day(end) == day(at) else f"{day(end)} {clock_time(end)}"


def host_of(url: str) -> str:
    """The short host name of a URL: `shop` for `http://shop.localhost/paid`."""
    return (urlsplit(url).hostname or url).removesuffix(".localhost")


def rule_of(note: str) -> str:
    """The name of the egress rule with which the note of a blocked attempt begins."""
    return note.partition(":")[0]
