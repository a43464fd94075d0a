"""Checks of the webhook secret and the API keys of a hosted server: which secrets sign, and which keys are valid, after
rotations, resets, restarts and copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from leyden.harness.checks import responses as checks
from leyden.harness.constants import API_KEY
from leyden.harness.control.host import Host, violation
from leyden.harness.control.state_checks import do
from leyden.harness.model.rules import iso

_DAY_MS = 86_400_000
_MOST = 3  # secrets that sign at once [callback-signature]
_SECRET, _KEYS = "/sandbox/v1/webhook-secret", "/sandbox/v1/api-keys"
_INBOX = "http://signed.localhost/hook"


class _Expected:
    """The secrets, newest first, each with the instant at which it ends, and the keys: whether each is valid."""

    def __init__(self, given: str | None) -> None:
        self.given = given
        self.secrets: list[tuple[str, int | None]] = [] if given is None else [(given, None)]
        self.ever: list[str] = []  # the secrets of rotations, in all runs
        self.keys = {API_KEY: True}
        self.received = 0
        self.since: dict[str, str] = {}  # from when each secret signs
        self.ends: dict[str, int | None] = {}  # until when, in this run; of one that is given again not the first end
        self.then: dict[str, set[str]] = {}  # what signed at each instant that was looked at, in this run

    def rotate(self, secret: str, now: int) -> None:
        """Another secret; the earlier ones sign for a day."""
        self.since.pop(secret, None)
        known = [(one, now + _DAY_MS if until is None else until) for one, until in self.secrets if one != secret]
        self.ends.update(known)
        self.ends[secret] = None
        for one, until in known[_MOST - 1 :]:
            self.ends[one] = now if until is None else min(until, now)
        self.secrets = [(secret, None), *known][:_MOST]
        self.ever.append(secret)

    def signing(self, now: int) -> list[str]:
        return [secret for secret, until in self.secrets if until is None or now < until][:_MOST]


def check_secrets(host: Host, step: Mapping[str, Any]) -> None:
    """Do one step `control_secrets`: after each of its steps a callback is signed by exactly the secrets that are
    promised, and each key is valid or not."""
    options: Sequence[str] = step.get("options", ())
    given = options[options.index("--webhook-secret") + 1] if "--webhook-secret" in options else None
    expected = _Expected(given)
    _check(host, expected, "at the start")
    for number, one in enumerate(step["steps"]):
        where = f"after step {number + 1}, {one.get('target', one['do'])}"
        _do(host, one, expected)
        _check(host, expected, where)


def _do(host: Host, one: Any, expected: _Expected) -> None:
    target = one.get("target", "")
    if one["do"] == "restart":
        host.server.restart(one["how"], options=one.get("options", ()))
        host.forget()
        if expected.given is not None and expected.secrets[0][0] != expected.given:
            expected.rotate(expected.given, _now(host))  # the option of a start is a rotation
    elif target == f"{_SECRET}/rotate":
        now, answer = _now(host), host.accepted("POST", target)
        checks.new_secret(answer["current"], [*expected.ever, *(secret for secret, _ in expected.secrets)])
        expected.rotate(answer["current"], now)
    elif target.startswith(_KEYS):
        body = one.get("body", {})
        answer = host.accepted("POST", target, body)
        new = answer["key"]
        if expected.keys.get(new) is not None:
            raise violation(f"POST {target}", "a key that was never issued", new)
        if "replaces" in body:
            expected.keys[body["replaces"]] = False
        expected.keys[new] = True
        valid = [key for key, is_valid in expected.keys.items() if is_valid]
        if answer["keys"] != valid:
            raise violation(f"POST {target}: the keys that are valid, oldest first", valid, answer["keys"])
    else:
        before = _now(host)
        do(host, one)
        if target.endswith("/reset"):
            # The current secret stays, and the notes say so when an earlier one signed besides.
            is_told = any("rotation of the webhook secret" in note for note in host.read("/sandbox/v1")["notes"])
            if is_told != (len(expected.signing(before)) > 1):
                raise violation(f"notes after POST {target}", len(expected.signing(before)), is_told)
            expected.secrets = expected.secrets[:1]
            expected.ends.clear()
        if target.endswith("/restore"):
            expected.ever.clear()  # what came after the snapshot is repeated
        if target.endswith(("/reset", "/restore")):
            expected.since.clear()
            expected.then.clear()
            expected.received = next(
                (row["received"] for row in host.rows("listInboxes") if row["name"] == "signed"), 0
            )


def _check(host: Host, expected: _Expected, where: str) -> None:
    found = host.read(_SECRET)
    if not expected.secrets:
        expected.secrets = [(found["current"], None)]
    now = _now(host)
    signing = expected.signing(now)
    observed = [one["secret"] for one in found["secrets"]]
    if (found["current"], observed) != (signing[0], signing):
        raise violation(f"GET {_SECRET} {where}", signing, [found["current"], *observed])
    since = {one["secret"]: one["since"] for one in found["secrets"]}
    wanted_since = {secret: expected.since.get(secret, at) for secret, at in since.items()}
    if since != wanted_since:
        raise violation(f"GET {_SECRET}: since, {where}", wanted_since, since)
    expected.since |= since
    _check_former(host, expected, observed, where)
    body = {"amount": "2000", "description": "signed", "callbackUrl": _INBOX}
    charge = host.accepted("POST", "/v0/charges", body)["data"]["id"]
    host.accepted("POST", f"/sandbox/v1/charges/{charge}/fail", {})
    posts = host.read(f"/sandbox/v1/inboxes/signed?limit=1000&after={expected.received}")["posts"]
    if len(posts) != 1:
        raise violation(f"callbacks {where}", "one", len(posts))
    expected.received += 1
    headers, text = posts[0]["headers"], posts[0]["body"]
    stamp_s = int(headers["webhook-timestamp"])
    wanted = checks.signature(observed, headers["webhook-id"], stamp_s, text)
    if headers["webhook-signature"] != wanted:
        raise violation(f"webhook-signature {where}", wanted, headers["webhook-signature"])
    for key, is_valid in expected.keys.items():
        for path in ("/v0/wallet", "/sandbox/v1"):
            status = host.server.ask("GET", path, key=key).status
            if status != (200 if is_valid else 401):
                raise violation(f"GET {path} with {'a key' if is_valid else 'a replaced key'} {where}",
                                200 if is_valid else 401, status)  # fmt: skip
        if key != API_KEY:
            for target, given in ((_KEYS, {"key": key}), (f"{_KEYS}/rotate", {"replaces": API_KEY, "key": key})):
                status = host.ask("POST", target, given).status
                if status != 409:
                    raise violation(f"POST {target} with a key that was issued, {where}", 409, status)


def _check_former(host: Host, expected: _Expected, observed: Sequence[str], where: str) -> None:
    """Of each instant that was looked at, the secrets of then: all that signed, and none that was created later."""
    now = iso(_now(host))
    expected.then.setdefault(now, set()).update(observed)
    for at, signing in expected.then.items():
        path = f"{_SECRET}?at={at}"
        found = host.read(path)
        secrets = [one["secret"] for one in found["secrets"]]
        if found["current"] != secrets[0] or any(one["since"] > at for one in found["secrets"]):
            raise violation(
                f"GET {path} {where}", f"secrets that were created until {at}, the current one first", found
            )
        if len(set(secrets)) < len(secrets) or not signing <= set(secrets):
            raise violation(f"GET {path} {where}", sorted(signing), secrets)
        for one in found["secrets"]:
            secret, until = one["secret"], one["until"]
            is_past = until is not None and until <= now
            if expected.since.get(secret, at) > at:  # it was given again
                continue
            if is_past == (secret in observed):
                raise violation(f"GET {path}: until, {where}", "after now, only if it signs now", until)
            if secret in expected.ends:
                end_ms = expected.ends[secret]
                wanted = None if end_ms is None else iso(end_ms)
                if until != wanted:
                    raise violation(f"GET {path}: until, {where}", wanted, until)


def _now(host: Host) -> int:
    text = host.read("/sandbox/v1/clock")["now"]
    return round(datetime.fromisoformat(text).timestamp() * 1_000)
