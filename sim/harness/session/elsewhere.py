"""Other sandboxes of the same server: what they share with the sandbox of a run, and which requests they answer.

A served Leyden has a sandbox for each API key. Those of the configured keys share the Lightning addresses below the URL
of the server. Each counts and records the requests that it answers. A request without a known key goes to the sandbox
whose Static Charge or address its path names, and otherwise to one of them, always the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any
from urllib.parse import quote, unquote

from leyden.harness.constants import NO_KEY
from leyden.harness.model.records import StaticCharge
from leyden.harness.session.exchanges import Answered, Request
from leyden.harness.targets.control_answers import control_answer
from leyden.harness.targets.target import PROJECT, SECOND_PROJECT, Response, Target

_NAMES = "/.well-known/lnurlp/"
_UNKNOWN = "no-static-charge-has-this"  # a user name that no step gives


class OtherSandboxes:
    """The sandboxes beside that of a run. `find` comes first.

    `have_the_ids`: that of the second project has the seed of the run, so both may have a resource of the same id.
    """

    def __init__(self, target: Target, spare_keys: Collection[str], sent: list[Answered]) -> None:
        self._target = target
        self._spare_keys = spare_keys
        self._sent = sent
        self._exist = target.controlled and not target.shared
        self._answer_the_rest = False  # requests without a known key that name nothing of the run
        self.have_the_ids = False
        self._names: set[str] = set()
        self._without_name = b""

    def find(self) -> None:
        """Find out which sandbox answers a request without a key that names nothing: only its journal has it."""
        if self._exist:
            self._without_name = self._pay_request(_UNKNOWN).body
            entries = self._read("/journal?limit=1000", PROJECT)
            self._answer_the_rest = not any(one["subject"] == f"GET {_NAMES}{_UNKNOWN}" for one in entries)
            self._note(_UNKNOWN, 200)
            if self._target.keys[SECOND_PROJECT] != NO_KEY:
                seeds = [self._read("", project)["seed"] for project in self._target.keys]
                self.have_the_ids = len(set(seeds)) < len(seeds)

    def have_name(self, user: str) -> bool:
        """Whether one of them has the user name of a Lightning address, which the sandbox of the run has not."""
        if self._exist and user not in self._names:
            response = self._pay_request(user)
            if response.body == self._without_name:
                self._note(user, response.status)
            else:
                self._names.add(user)
        return user in self._names

    def answer(self, path: str, headers: Sequence[tuple[str, str]], statics: Iterable[StaticCharge]) -> bool:
        """Whether one of them answers a request that is sent now, and not the sandbox of the run with its `statics`."""
        key = _key(headers)
        if not self._exist or key == self._target.keys[PROJECT] or key in self._spare_keys:
            return False
        if key in self._target.keys.values():
            return True
        parts = set(unquote(path.partition("?")[0]).split("/")) - {""}
        if self._names & parts:
            return True
        return self._answer_the_rest and not any(
            one.id in parts or (one.identifier or "").partition("@")[0] in parts for one in statics
        )

    def count(self, headers: Sequence[tuple[str, str]], is_own: bool) -> str | None:
        """The name of the count that numbers a request; None if it is that of another sandbox."""
        if self._target.shared or self._target.controlled:
            return "" if is_own else None
        return _key(headers)  # another implementation may count for each project

    def _pay_request(self, user: str) -> Response:
        return self._target.send("GET", f"{_NAMES}{quote(user, safe='')}", (), b"")

    def _read(self, path: str, project: str) -> Any:
        target = f"/sandbox/v1{path}"
        response = self._target.send("GET", target, [("apikey", self._target.keys[project])], b"")
        return control_answer(self._target.name, "GET", target, response)

    def _note(self, user: str, status: int) -> None:
        """Note that the request for an unknown name is in the journal of the sandbox that answers the rest."""
        if not self._answer_the_rest:
            self._sent.append(Answered(Request("GET", f"{_NAMES}{user}", (), b""), status, refused=None))


def _key(headers: Sequence[tuple[str, str]]) -> str:
    return next((value for name, value in headers if name.lower() == "apikey"), "")
