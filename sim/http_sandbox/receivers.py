"""The built-in receivers of a sandbox on a running server: what they answer, and what they got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any, Protocol, Self
from urllib.parse import quote

from leyden.arguments import receiver_name
from leyden.errors import ApiError, ArgumentError
from leyden.http_sandbox.requests import OverHttp, is_missing
from leyden.server.printable import quoted

ReplyOver = int | str | Mapping[str, Any] | Any  # a status, a word, the fields of a reply, or a `Reply`


class WithInboxes(Protocol):
    """The sandbox: a client of its server."""

    def ask(self, method: str, target: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request and return the JSON of its response."""

    def inbox(self, name: str) -> list[dict[str, Any]]:
        """What the receiver got."""


class HttpReceiver(OverHttp):
    """One built-in receiver, at `http://<name>.localhost/...`. Each change sends its whole script anew: two clients
    that change one at the same time may lose a change."""

    def __init__(self, sandbox: WithInboxes, name: str) -> None:
        self._sandbox = sandbox
        self.name = receiver_name(name)
        self._path = f"/sandbox/v1/inboxes/{quote(self.name, safe='')}"

    def answers(self, script: Sequence[ReplyOver]) -> Self:
        """Set the responses to the next callbacks, as `Receiver.answers`. Raises `ValueError` for what is no list, and
        `ApiError` for what is no reply."""
        if isinstance(script, (str, Mapping)) or is_dataclass(script) or not isinstance(script, Iterable):
            raise ArgumentError(f"{quoted(script, 80)} is not a list of replies: write answers([{quoted(script, 80)}])")
        return self._put(answers=[_reply(one) for one in script])

    def always(self, reply: ReplyOver) -> Self:
        """Set the response when there is no script."""
        return self._put(always=_reply(reply))

    def when(
        self,
        reply: ReplyOver,
        *,
        event: str | None = None,
        charge: Any = None,
        attempt: int | None = None,
        count: int | None = 1,
    ) -> Self:
        """Add a rule, as `Receiver.when`; `charge` is an id, or a resource of this sandbox."""
        conditions = {"event": event, "chargeId": getattr(charge, "id", charge), "attempt": attempt}
        rule = {"say": _reply(reply), "count": count, **_given(conditions)}
        return self._put(rules=[*self._script["rules"], rule])

    def reset_script(self) -> Self:
        """Delete the script and the rules; the default of `always` stays."""
        return self._put(answers=[], rules=[])

    @property
    def inbox(self) -> list[dict[str, Any]]:
        """The posts that it got, oldest first."""
        return self._sandbox.inbox(self.name)

    @property
    def objections(self) -> int:
        """How many callbacks failed verification."""
        return int(self._data.get("objections", 0))

    @property
    def rules(self) -> list[dict[str, Any]]:
        """The rules that are not used up, with the control plane's field names."""
        return list(self._script["rules"])

    @property
    def script(self) -> list[dict[str, Any]]:
        """The rest of the script."""
        return list(self._script["answers"])

    @property
    def usual(self) -> dict[str, Any]:
        """The default response."""
        return dict(self._script["always"])

    @property
    def _data(self) -> dict[str, Any]:
        """The inbox as the control plane shows it; empty before its first post and its first script."""
        try:
            data: dict[str, Any] = self._sandbox.ask("GET", f"{self._path}?limit=1")
        except ApiError as refused:
            if not is_missing(refused):
                raise
            return {}
        return data

    @property
    def _script(self) -> dict[str, Any]:
        script: dict[str, Any] = self._data.get("script", {"rules": [], "answers": [], "always": {"status": 200}})
        return script

    def _put(self, **changes: Any) -> Self:
        script = {**self._script, **changes}
        script["rules"] = [{"count": rule["count"], **_given(rule)} for rule in script["rules"]]
        self._sandbox.ask("PUT", f"{self._path}/script", script)
        return self


def _given(fields_by_name: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields_by_name.items() if value is not None}


def _reply(reply: ReplyOver) -> Any:
    """A reply in JSON: a `Reply` by its fields, a word in small letters."""
    if is_dataclass(reply):
        reply = {field.name: getattr(reply, field.name) for field in fields(reply)}
    if isinstance(reply, Mapping):
        return {
            name: value.total_seconds() if isinstance(value, timedelta) else dict(value) if name == "headers" else value
            for name, value in reply.items()
        }
    return reply.lower() if isinstance(reply, str) else reply
