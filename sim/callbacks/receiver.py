"""One callback receiver, as Python code configures and reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Protocol, TypedDict, Unpack

from leyden.arguments import checked_count, checked_list, methods_with_hints
from leyden.callbacks.behaviour import Window, behaviour_row, described
from leyden.callbacks.callback_rows import BehaviourRow, ReceiverRow, ReplyRow, ReplyRuleRow
from leyden.callbacks.inboxes import Inbox
from leyden.callbacks.replies import Reply, ReplySpec, reply_resource, stored_reply, word_of
from leyden.distributions import DistributionText
from leyden.errors import ArgumentError, ClosedError
from leyden.repr_tables import html_grid
from leyden.server.callbacks.signing import check_secret
from leyden.server.printable import quoted
from leyden.server.timestamps import to_iso

_SHOWN = 10  # callbacks in a notebook


class ReceiverChanges(TypedDict, total=False):
    """Fields of a receiver's row to change."""

    script: list[ReplyRow]
    rules: list[ReplyRuleRow]
    default: ReplyRow
    secret: str | None
    received: int
    objections: int
    behaviour: BehaviourRow | None


class ReceiverStates(Protocol):
    """The interface of `Receivers` that one receiver uses."""

    def state(self, name: str) -> ReceiverRow:
        """The stored state of a receiver."""

    def change(self, name: str, **changes: Unpack[ReceiverChanges]) -> None:
        """Change fields of a receiver's state."""

    def check_event(self, event: str | None) -> None:
        """Raise `ValueError` for an event that no callback of the contract has."""

    def inbox(self, name: str) -> Inbox:
        """The callbacks that the receiver has received."""


@methods_with_hints
class Receiver:
    """One callback receiver. It answers 200 unless it has a script, a rule or another default."""

    def __init__(self, name: str, receivers: Callable[[], ReceiverStates]) -> None:
        self.name = name
        self._receivers = receivers  # looked up each time: a handle stays valid after a reset

    @property
    def _state(self) -> ReceiverRow:
        return self._receivers().state(self.name)

    def _changed(self, **changes: Unpack[ReceiverChanges]) -> Receiver:
        self._receivers().change(self.name, **changes)
        return self

    def answers(self, script: Sequence[ReplySpec]) -> Receiver:
        """Set the responses to the next callbacks, one after another; then the default of `always` applies.
        Replaces the former script.

        An element is a status, a `Reply`, or an error word in small or capital letters: one of the constants in
        `leyden.callbacks.replies`, such as `TIMEOUT`, or its text, `"timeout"`. `ValueError` for anything else.
        """
        if isinstance(script, (str, bytes, bytearray, Set, Mapping, Reply)) or not isinstance(script, Iterable):
            raise ArgumentError(f"{quoted(script)} is not a list of replies: write answers([{quoted(script)}])")
        return self._changed(script=[stored_reply(reply) for reply in checked_list("script", script)])

    def always(self, reply: ReplySpec) -> Receiver:
        """Set the response when there is no script. Raises `ValueError` like `answers`."""
        return self._changed(default=stored_reply(reply))

    def when(
        self,
        reply: ReplySpec,
        *,
        event: str | None = None,
        charge: str | None = None,
        attempt: int | None = None,
        count: int | None = 1,
    ) -> Receiver:
        """Add a rule: the response to the next `count` callbacks (None: all) that match all arguments, before the
        script.

        `charge` is the id of a Charge or of its Static Charge, `attempt` 1 for the first. Of several rules that
        match, the oldest applies. Raises `ValueError` like `answers`, and for an event that the spec does not have.
        """
        attempt, count = checked_count("attempt", attempt), checked_count("count", count)
        self._receivers().check_event(event)
        rule: ReplyRuleRow = {
            "reply": stored_reply(reply),
            "event": event,
            "charge": charge,
            "attempt": attempt,
            "count": count,
        }
        return self._changed(rules=[*self._state["rules"], rule])

    def behaves(
        self,
        *,
        failure: float = 0.0,
        fails_with: ReplySpec = 500,
        latency: DistributionText | None = None,
        down: Window | Sequence[Window] = (),
    ) -> Receiver:
        """Set random and timed behaviour from now on. It replaces the former behaviour; a call without arguments
        removes it.

        `failure` is the share of callbacks, 0 to 1, that are answered with `fails_with`, a reply as in `answers`.
        `latency` is a distribution of the time until the answer (`leyden.distributions`: `"lognorm(80ms, 0.5)"`); a
        latency of the attempt's timeout or more is a timeout. `down` is a window in which connections are refused, or a
        list of them: two times of every day in UTC, `("12:00", "14:00")`, or two instants. A window does not include
        its end. The random numbers depend on the seed, the receiver and the number of the callback. While the receiver
        is up, the replies of `when` and `answers` take precedence and are not changed. Raises `ValueError` for what is
        not valid.
        """
        row = behaviour_row(failure, fails_with, latency, down)
        is_none = not row["failure"] and row["latency"] is None and not row["down"]
        return self._changed(behaviour=None if is_none else row)

    @property
    def rules(self) -> list[dict[str, Any]]:
        """The rules of `when` that are not used up: `reply`, `event`, `charge`, `attempt` and the `count` left."""
        return [{**rule, "reply": reply_resource(rule["reply"])} for rule in self._state["rules"]]

    @property
    def script(self) -> list[dict[str, Any]]:
        """The rest of the script, in the form that `parse_reply` reads."""
        return [reply_resource(reply) for reply in self._state["script"]]

    @property
    def usual(self) -> dict[str, Any]:
        """The default response, in the form that `parse_reply` reads."""
        return reply_resource(self._state["default"])

    def reset_script(self) -> Receiver:
        """Delete the script and the rules; the default of `always` stays."""
        return self._changed(script=[], rules=[])

    def use_secret(self, secret: str | None) -> Receiver:
        """Verify signatures with this `whsec_` secret only; None: with those that are valid in the sandbox.

        Raises `ValueError` for what is no secret: `whsec_` and 24 to 64 bytes in base64.
        """
        if secret is not None:
            try:
                check_secret(secret)
            except ValueError as error:
                raise ArgumentError(f"secret: {error}, or None") from None
        return self._changed(secret=secret)

    @property
    def inbox(self) -> Inbox:
        """All callbacks received so far, oldest first."""
        return self._receivers().inbox(self.name)

    @property
    def objections(self) -> int:
        """The number of callbacks that failed verification."""
        return self._state["objections"]

    def __repr__(self) -> str:
        try:
            state = self._state
        except ClosedError:
            return f"<Receiver {self.name!r} of a closed sandbox>"
        waiting, behaviour = len(state["script"]), state.get("behaviour")
        answers = f"then {waiting} scripted answers" if waiting else f"answers {word_of(state['default'])}"
        count = len(state["rules"])
        rules = f", {count} rule{'s' if count > 1 else ''}" if count else ""
        chance = "" if behaviour is None else f", {described(behaviour)}"
        secret = "" if state["secret"] is None else ", a secret of its own"
        return f"<Receiver {self.name!r}: {state['received']} received, {answers}{rules}{chance}{secret}>"

    def _repr_html_(self) -> str:
        """The latest callbacks and the answers to them."""
        try:
            latest = self.inbox[-_SHOWN:]
        except ClosedError:
            latest = []
        rows = [(to_iso(got.at), got.event, got.attempt, got.answer) for got in latest]
        return html_grid(("at", "event", "attempt", "answer"), rows, caption=repr(self).strip("<>"))
