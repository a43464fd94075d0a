"""Obligations of the webhook secret and the API keys: one of one's own, rotations, resets, restarts and copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from leyden.harness.obligations.control.setups import PAUSED, advance, send
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step
from leyden.harness.targets.hosted import ENDS

_OWN = ("--webhook-secret", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
_ROTATE = send("POST", "/sandbox/v1/webhook-secret/rotate")
_RESET = send("POST", "/sandbox/v1/reset", {})
_KEYS = (
    send("POST", "/sandbox/v1/api-keys", {"key": "second key"}),
    send("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "second key", "key": "third key"}),
)

_RANDOM_KEY = send("POST", "/sandbox/v1/api-keys", {})
_RANDOM_ROTATION = send("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "third key"})
_MOST_ROTATIONS = 5  # within an hour


def _restart(how: str, *options: str) -> Step:
    step: Any = {"do": "restart", "how": how, "options": [*options]}
    found: Step = step
    return found


def _sequences() -> Iterator[tuple[str, Sequence[Step]]]:
    yield "rotated", (_ROTATE, advance("23h"), _ROTATE, advance("2h"), _ROTATE, _ROTATE, advance("25h"))
    yield "reset", (_RESET, *_KEYS, _RESET)
    yield "keys, then reset", (*_KEYS, _RESET, advance("1h"), _RESET)
    yield "rotated, then reset", (_ROTATE, _RESET, *_KEYS, _ROTATE, advance("25h"), _RESET)
    repeated = send("POST", "/sandbox/v1/reset", {"seed": 5})
    yield "reset with a seed", (*_KEYS, repeated, _ROTATE)
    yield "rotated in runs of one seed", (repeated, _ROTATE, _ROTATE, repeated, _ROTATE, repeated, _ROTATE)
    run = (repeated, _RANDOM_KEY)
    yield "random keys in runs of one seed", (*run, _RANDOM_KEY, *run, *_KEYS, *run, _RANDOM_ROTATION, *run)
    for count in range(2, _MOST_ROTATIONS + 1):
        yield f"{count} rotations within an hour", (_ROTATE, advance("10m")) * count
    restored = (send("POST", "/sandbox/v1/snapshots", {}, **{"as": "snap"}), *_KEYS,
                send("POST", "/sandbox/v1/restore", {"snapshot": "{snap.0.id}"}))  # fmt: skip
    yield "restored", restored
    snapshot, *_, restore = restored
    # After a restore the random stream draws the same keys again, which are keys already.
    yield "random keys, restored", (snapshot, _RANDOM_KEY, restore, _RANDOM_KEY, _RANDOM_KEY, restore, _RANDOM_KEY)
    for how in ENDS:
        again = _restart(how)
        yield f"{how}", (*_KEYS, again, _ROTATE, advance("1h"), again, advance("12h"), again, advance("13h"), again)
        yield f"{how} and reset", (*_KEYS, _RESET, again, _ROTATE, _RESET, again, _RESET)


def secret_obligations() -> Iterator[Obligation]:
    """Each sequence with the secret of the seed and with one that is given."""
    source = "sandbox.openapi.yaml#/paths/~1sandbox~1v1~1webhook-secret/get"
    for (case, steps), options in product(_sequences(), ((), _OWN)):
        disk = any(one["do"] == "restart" for one in steps)
        step: Any = {"do": "control_secrets", "options": [*PAUSED, *options], "disk": disk, "steps": [*steps]}
        name = f"{case}{', given' if options else ''}"
        yield Obligation("getWebhookSecret", "secrets", name, source, (step,), setup="control-secrets-changed")
