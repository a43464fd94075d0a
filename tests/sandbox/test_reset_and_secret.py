"""Resets and the webhook secret: a reset starts a run with other ids, and the secret outlasts it."""

from __future__ import annotations

import argparse
import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from leyden import Sandbox
from leyden.callbacks.faults.kinds import CARRYING_KINDS, KINDS, RATE_LIMIT
from leyden.callbacks.mutations import CONTENT_KINDS
from leyden.devserver.argument_types import webhook_secret
from leyden.errors import ApiError
from leyden.world.event_journal import Entry
from tests.support.lists import listed
from tests.support.receivers import Got, on_silence, threaded
from tests.support.served import run_command, served_leyden

SECRET = "whsec_" + "QUJD" * 8
OTHER = "whsec_" + "WFla" * 8


def reset(sandbox: Sandbox, body: dict[str, Any] | None = None) -> dict[str, Any]:
    state: dict[str, Any] = sandbox.ask("POST", "/sandbox/v1/reset", body)
    return state


def run(sandbox: Sandbox, url: str = "http://shop.localhost/hook") -> tuple[str, str, str]:
    """One paid Charge: its id, the id of its callback and the hash of the journal."""
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=url)
    sandbox.wallet("ana").pay(charge)
    sandbox.run()
    journal_hash = sandbox.journal_hash
    [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
    return charge.id, delivery["id"], journal_hash


def secret_of(sandbox: Sandbox) -> str:
    secret: str = sandbox.ask("GET", "/sandbox/v1/webhook-secret")["current"]
    return secret


# Resets


@pytest.mark.parametrize("body", [None, {}, {"start": "2031-01-01T00:00:00Z"}])
def test_a_reset_starts_a_run_with_its_own_ids(body: dict[str, Any] | None) -> None:
    with Sandbox(seed=7) as sandbox:
        runs = [run(sandbox)]
        seeds = [7]
        for _ in range(3):
            seeds.append(reset(sandbox, body)["seed"])
            runs.append(run(sandbox))
        assert len(set(seeds)) == 4
        for same in zip(*runs, strict=True):
            assert len(set(same)) == 4


def test_the_runs_after_resets_are_the_same_on_every_machine() -> None:
    seen = []
    for _ in range(2):
        with Sandbox(seed=7) as sandbox:
            reset(sandbox)
            reset(sandbox)
            seen.append(run(sandbox))
    assert seen[0] == seen[1]


def test_a_reset_with_the_seed_of_a_run_repeats_it_exactly() -> None:
    with Sandbox(seed=7) as sandbox:
        first = run(sandbox)
        other_seed = reset(sandbox)["seed"]
        other = run(sandbox)
        assert reset(sandbox, {"seed": 7})["seed"] == 7
        assert run(sandbox) == first
        reset(sandbox, {"seed": other_seed})
        assert run(sandbox) == other


def test_a_receiver_that_remembers_ids_takes_the_callbacks_after_a_reset_for_new_ones() -> None:
    known: set[str] = set()
    processed: list[str] = []

    def once(got: Got) -> int:
        if got.headers["webhook-id"] not in known:
            known.add(got.headers["webhook-id"])
            processed.append(got.json["id"])
        return 200

    with threaded(once) as hook, Sandbox(egress="loopback") as sandbox:
        charges = [run(sandbox, hook.url)[0]]
        reset(sandbox)
        charges.append(run(sandbox, hook.url)[0])
        assert processed == charges


def test_a_script_repeats_a_reset_without_a_seed() -> None:
    with Sandbox(seed=7) as sandbox:
        run(sandbox)
        reset(sandbox)
        run(sandbox)
        names: dict[str, Any] = {}
        exec(sandbox.script(), names)
        assert names["sb"].journal_hash == sandbox.journal_hash


# The webhook secret


@pytest.mark.parametrize("given", [None, SECRET])
def test_a_reset_keeps_the_webhook_secret(given: str | None) -> None:
    with Sandbox(seed=7, webhook_secret=given) as sandbox:
        before = secret_of(sandbox)
        assert given in (None, before)
        for body in ({}, {"seed": 8}, {"seed": 7}):
            reset(sandbox, body)
            assert secret_of(sandbox) == before


def signing(sandbox: Sandbox) -> list[str]:
    return [one["secret"] for one in sandbox.ask("GET", "/sandbox/v1/webhook-secret")["secrets"]]


def test_a_reset_says_that_an_earlier_secret_signs_no_longer() -> None:
    with Sandbox(seed=7) as sandbox:
        assert reset(sandbox)["notes"] == []
        sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate", {})
        both = signing(sandbox)
        assert len(both) == 2
        [note] = reset(sandbox)["notes"]
        assert "ended the rotation of the webhook secret: only the current one signs" in note
        assert signing(sandbox) == both[:1]
        assert sandbox.ask("GET", "/sandbox/v1")["notes"] == [note]
        assert reset(sandbox)["notes"] == []


def test_a_reset_after_the_rotation_ended_has_no_note() -> None:
    with Sandbox(seed=7) as sandbox:
        sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate", {})
        sandbox.advance("25h")
        assert len(signing(sandbox)) == 1
        assert reset(sandbox)["notes"] == []


def test_a_reset_by_the_server_says_it_too() -> None:
    admin = {"authorization": "Bearer administrator-of-resets"}
    with served_leyden("--rate", "0", "--admin-token", "administrator-of-resets") as client:
        box = client.ok("POST", "/sandbox/v1/sandboxes", {"rate": 0}, **admin)
        client.ok("POST", "/sandbox/v1/webhook-secret/rotate", apikey=box["apiKey"])
        client.ok("POST", f"/sandbox/v1/sandboxes/{box['id']}/reset", {}, **admin)
        assert len(client.ok("GET", "/sandbox/v1", apikey=box["apiKey"])["notes"]) == 1


def test_a_reset_keeps_a_secret_that_was_rotated_and_the_next_rotation_gives_another() -> None:
    with Sandbox(seed=7) as sandbox:
        seen = [secret_of(sandbox)]
        for _ in range(2):
            seen.append(sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate", {})["current"])
            reset(sandbox, {"seed": 7})
            assert secret_of(sandbox) == seen[-1]
        assert len(set(seen)) == 3
        run(sandbox)
        [got] = sandbox.receiver("shop").inbox
        assert not got.verdict


@pytest.mark.parametrize("kept", [False, True])
def test_no_rotation_gives_a_secret_or_a_key_that_the_project_had_before(tmp_path: Path, *, kept: bool) -> None:
    """In no run of any seed; also when an earlier secret was given again between two runs."""

    def opened(**options: Any) -> Sandbox:
        return Sandbox(**options, **({"data": tmp_path} if kept else {}))

    sandbox = opened(seed=7)
    drawn = [secret_of(sandbox)]
    for number, seed in enumerate((7, 8, 7, 7, None, 8, 7)):
        for _ in range(1 + number % 3):
            drawn.append(sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate", {})["current"])
            drawn.append(sandbox.ask("POST", "/sandbox/v1/api-keys")["key"])
        reset(sandbox, {} if seed is None else {"seed": seed})
        if kept:
            sandbox.close()
            sandbox = opened(webhook_secret=drawn[0])
    assert len(set(drawn)) == len(drawn) == 27
    sandbox.close()


CHANGED = sorted({*KINDS} - {RATE_LIMIT})


def faulty_run(sandbox: Sandbox, kind: str, rotations: int) -> list[Entry]:
    """A run whose callbacks a fault changes, delays or copies, and that verifies every signature. Its journal."""
    for _ in range(rotations):
        sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate", {})
    sandbox.faults.add(kind, count=3)
    for answers in ([200], [500, 200], ["timeout", 410]):
        sandbox.receiver("shop").answers(answers)
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/hook")
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("2d")
    return sandbox.world.journal.entries()


def differences(one: Any, other: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the values that differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for name in one:
            yield from differences(one[name], other[name], (*path, name))
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for number, values in enumerate(zip(one, other, strict=True)):
            yield from differences(*values, (*path, str(number)))
    elif one != other:
        yield path


@pytest.mark.parametrize("kind", CHANGED)
def test_the_journal_hash_does_not_depend_on_the_webhook_secret(kind: str) -> None:
    with Sandbox(seed=7) as one, Sandbox(seed=7, webhook_secret=SECRET) as other:
        entries = [faulty_run(sandbox, kind, rotations=int(kind == "old_secret")) for sandbox in (one, other)]
        assert one.journal_hash == other.journal_hash
        assert one.world.journal.computed_hash() == other.world.journal.computed_hash() == one.journal_hash
        differing = {path[-1] for path in differences(*entries)}
    sends_signed = {*CARRYING_KINDS, *CONTENT_KINDS} - {"drop", "bad_signature", "missing_headers"}
    assert differing == ({"webhook-signature"} if kind in sends_signed else set())


@pytest.mark.parametrize("kind", ["redeliver", "old_secret", "two_signatures", "bad_signature"])
@pytest.mark.parametrize("rotations", [1, 2])
def test_a_run_that_rotated_the_secret_is_repeated_after_a_reset(kind: str, rotations: int) -> None:
    hashes = set()
    with Sandbox(seed=7) as sandbox:
        for seed in (5, 5, 6, 5):
            reset(sandbox, {"seed": seed})
            faulty_run(sandbox, kind, rotations)
            hashes.add((seed, sandbox.journal_hash))
    with Sandbox(seed=5) as sandbox:
        faulty_run(sandbox, kind, rotations)
        hashes.add((5, sandbox.journal_hash))
    assert len(hashes) == 2


def test_the_default_secret_is_derived_from_the_seed() -> None:
    with Sandbox(seed=7) as one, Sandbox(seed=7) as same, Sandbox(seed=8) as other:
        assert secret_of(one) == secret_of(same) != secret_of(other)


def test_a_given_secret_signs_and_changes_nothing_else() -> None:
    with threaded() as hook:
        with Sandbox(seed=7, egress="loopback", webhook_secret=SECRET) as sandbox:
            given = run(sandbox, hook.url)
            rotated = sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate", {})["current"]
        with Sandbox(seed=7, egress="loopback") as sandbox:
            assert run(sandbox, hook.url) == given
            assert sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate", {})["current"] == rotated
        Webhook(SECRET).verify(hook.inbox[0].body, hook.inbox[0].headers)
        with pytest.raises(Exception, match="No matching signature"):
            Webhook(SECRET).verify(hook.inbox[1].body, hook.inbox[1].headers)


@pytest.mark.parametrize("wrong", ["", "secret", "whsec_", "whsec_QUJD", "whsec_" + "QUJD" * 22, "QUJD" * 8])
def test_a_text_that_is_no_secret_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="whsec_ and 24 to 64 bytes"):
        Sandbox(webhook_secret=wrong)


@pytest.mark.parametrize("size", [23, 24, 25, 26, 27, 61, 62, 63, 64, 65, 66, 67])
def test_a_secret_has_24_to_64_bytes_wherever_it_is_given(size: int) -> None:
    secret, sandbox = "whsec_" + base64.b64encode(bytes(range(size))).decode(), Sandbox()
    ways: tuple[Callable[[], object], ...] = (
        lambda: Sandbox(webhook_secret=secret),
        lambda: sandbox.receiver("shop").use_secret(secret),
        lambda: webhook_secret(secret),
        lambda: sandbox.ask("POST", "/sandbox/v1/receiver-check", {"url": "http://localhost:9/", "secret": secret}),
    )
    refused = []
    for give in ways:
        try:
            give()
        except (ValueError, argparse.ArgumentTypeError, ApiError) as error:
            refused.append("24 to 64 bytes in base64" in str(error))
    # A request in process checks no receiver, also with a good secret.
    assert refused == ([False] if 24 <= size <= 64 else [True] * 4)


def test_copies_and_scripts_have_the_given_secret() -> None:
    with Sandbox(webhook_secret=SECRET) as sandbox:
        run(sandbox)
        names: dict[str, Any] = {}
        exec(sandbox.script(), names)
        copies = [sandbox.fork(), Sandbox.from_snapshot(sandbox.snapshot()), names["sb"]]
        assert [secret_of(copy) for copy in copies] == [SECRET] * 3


def test_a_directory_keeps_its_secret_and_takes_another_one(tmp_path: Path) -> None:
    with Sandbox(data=tmp_path, webhook_secret=SECRET):
        pass
    for given in (None, SECRET):
        with Sandbox(data=tmp_path, webhook_secret=given) as sandbox:
            [only] = sandbox.ask("GET", "/sandbox/v1/webhook-secret")["secrets"]
            assert only["secret"] == SECRET
    with Sandbox(data=tmp_path, webhook_secret=OTHER) as sandbox:
        both = sandbox.ask("GET", "/sandbox/v1/webhook-secret")["secrets"]
        assert [one["secret"] for one in both] == [OTHER, SECRET]


def test_a_served_sandbox_has_the_secret_that_it_is_given() -> None:
    with served_leyden("--webhook-secret", SECRET, "--rate", "0") as client:
        assert client.ok("GET", "/sandbox/v1/webhook-secret")["current"] == SECRET
        client.ok("POST", "/sandbox/v1/reset", {})
        assert client.ok("GET", "/sandbox/v1/webhook-secret")["current"] == SECRET
    done = run_command("serve", "--webhook-secret", "secret")
    assert done.returncode == 2
    assert "give whsec_ and 24 to 64 bytes in base64" in done.stderr


# The timeout of receivers on the network


def test_the_timeout_of_a_real_receiver_can_be_set() -> None:
    with on_silence() as url, Sandbox(egress="loopback", callback_timeout="100ms") as sandbox:
        sandbox.charges.create(amount="1000", description="tea", callbackUrl=url, expiresIn=60)
        sandbox.run("61s")
        [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
        [attempt] = delivery["attempts"]
        assert (attempt["error"], attempt["note"]) == ("timeout", "no complete answer within 100 ms")
        sandbox.receiver("shop").always("timeout")  # our own keeps the timeout of the specification, in virtual time
        sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/", expiresIn=60)
        sandbox.run("76s")
        [virtual, _] = listed(sandbox.ask, "/sandbox/v1/deliveries")
        assert (virtual["attempts"][0]["error"], virtual["attempts"][0]["latencyMs"]) == ("timeout", 15_000)


@pytest.mark.parametrize("wrong", ["99ms", "61s", 0, "-1s"])
def test_a_callback_timeout_has_bounds(wrong: str | int) -> None:
    with pytest.raises(ValueError, match="100ms to 60s"):
        Sandbox(callback_timeout=wrong)
    done = run_command("serve", "--callback-timeout", f"{wrong}s" if wrong == 0 else str(wrong))
    assert done.returncode == 2


# The secret of a receiver


@pytest.mark.parametrize("secret", [5, "", "abc", "whsec_!!!", "whsec_abcd", OTHER[6:], OTHER.encode(), f"{OTHER}="])
def test_a_receiver_takes_only_what_is_a_secret(secret: Any) -> None:
    sandbox = Sandbox(seed=7)
    with pytest.raises(ValueError, match=r"secret: .* whsec_ and 24 to 64 bytes"):
        sandbox.receiver("shop").use_secret(secret)
    run(sandbox, "http://shop.localhost/paid")
    assert sandbox.receiver("shop").objections == 0


def test_a_receiver_verifies_with_the_secret_that_it_was_given() -> None:
    sandbox = Sandbox(seed=7)
    assert sandbox.receiver("shop").use_secret(OTHER).use_secret(None).objections == 0
    sandbox.receiver("shop").use_secret(OTHER)
    run(sandbox, "http://shop.localhost/paid")
    assert sandbox.receiver("shop").objections == 1


def test_no_run_without_a_seed_repeats_the_ids_of_another() -> None:
    with Sandbox(7) as sandbox:
        seeds = []
        for seed in (7, None, 7, None, None):
            state = sandbox.ask("POST", "/sandbox/v1/reset", {} if seed is None else {"seed": seed})
            seeds.append(state["seed"])
    assert len({*seeds}) == 4
    assert seeds[0] == seeds[2] == 7
