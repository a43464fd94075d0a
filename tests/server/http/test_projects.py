"""Projects: a revoked key is invalid at once, and after a rotation both secrets are valid for a day."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time
from standardwebhooks.webhooks import Webhook

from leyden import Sandbox
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.errors import ApiError
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.errors import LeydenError
from leyden.server.timestamps import to_iso
from leyden.world.loopback import send_request

HOOK = "http://shop.localhost/hook"


def statuses(app: Any, *keys: str) -> list[int]:
    """The status of the response to each key."""
    return [send_request(app, "GET", "/v0/charges", ((b"apikey", key.encode()),)).status for key in keys]


def signatures_after(sandbox: Sandbox, seconds: float) -> list[str]:
    """The signatures of a callback that is sent this much later."""
    sandbox.advance(seconds - 1)
    sandbox.charges.create(amount="1000", description="tea", expiresIn=1, callbackUrl=HOOK)
    sandbox.advance(1)
    got = sandbox.receiver("shop").inbox[-1]
    assert got.verdict == []
    return got.headers["webhook-signature"].split(" ")


def test_for_a_day_both_secrets_sign_and_then_only_the_new(sandbox: Sandbox) -> None:
    projects = sandbox.world.service.projects
    [old] = projects.signing_secrets("default", sandbox.world.clock.now())
    new = projects.rotate_secret("default")
    assert new.startswith("whsec_")
    for seconds, secrets in ((1, [new, old]), (86_397, [new, old]), (2, [new])):
        assert len(signatures_after(sandbox, seconds)) == len(secrets)
        got = sandbox.receiver("shop").inbox[-1]
        with freeze_time(to_iso(got.at)):
            for secret in secrets:
                assert Webhook(secret).verify(got.body, dict(got.headers)) == got.json


def test_two_rotations_in_a_day_leave_three_secrets_signing(sandbox: Sandbox) -> None:
    projects = sandbox.world.service.projects
    projects.rotate_secret("default")
    sandbox.advance("12h")
    projects.rotate_secret("default")
    assert len(signatures_after(sandbox, 1)) == 3
    assert len(signatures_after(sandbox, 43_199)) == 2
    assert len(signatures_after(sandbox, 43_200)) == 1
    assert [secret["until_ms"] is None for secret in projects.secrets("default")] == [False, False, True]
    assert list(projects.secrets("nobody")) == []


def test_a_secret_that_is_given_again_signs_once(sandbox: Sandbox) -> None:
    projects = sandbox.world.service.projects
    [first] = projects.signing_secrets("default", sandbox.world.clock.now())
    second = projects.rotate_secret("default")
    projects.rotate_secret("default", first)
    projects.rotate_secret("default", first)
    assert projects.signing_secrets("default", sandbox.world.clock.now()) == [first, second]
    assert len(signatures_after(sandbox, 1)) == 2


def test_a_secret_that_is_given_again_leaves_the_signatures_of_earlier_attempts(sandbox: Sandbox) -> None:
    projects, outbox = sandbox.world.service.projects, sandbox.world.service.outbox
    [first] = projects.signing_secrets("default", sandbox.world.clock.now())
    sent = signatures_after(sandbox, 1)
    projects.rotate_secret("default")
    sandbox.advance("25h")
    projects.rotate_secret("default", first)
    [row] = outbox.deliveries()
    assert outbox.signature(row, AttemptLog(row).attempts()[0]).split(" ") == sent


def test_the_secrets_of_a_past_instant_are_those_that_signed_then(sandbox: Sandbox) -> None:
    projects, begun = sandbox.world.service.projects, sandbox.world.clock.now()
    secrets = [projects.secrets("default")[0]["secret"]]
    for _ in range(5):
        sandbox.advance("1h")
        secrets.append(projects.rotate_secret("default"))
    hour = 3_600_000
    for hours, newest in ((0, 0), (0.5, 0), (1.5, 1), (2.5, 2), (3.5, 3), (4.5, 4)):
        then = projects.signing_rows_then("default", begun + round(hours * hour))
        assert [row["secret"] for row in then] == secrets[max(0, newest - 2) : newest + 1][::-1], hours
    assert [row["secret"] for row in projects.signing_rows_then("default", begun + 5 * hour)] == secrets[5:1:-1]
    assert [row["secret"] for row in projects.signing_rows_then("default", begun - 1)] == secrets[:1]
    assert [row["secret"] for row in projects.signing_rows_then("default", begun + 40 * hour)] == secrets[5:]
    projects.rotate_secret("default", secrets[4])
    again = projects.signing_rows_then("default", begun + 5 * hour)
    assert [row["secret"] for row in again] == [secrets[4], secrets[5], secrets[3], secrets[2]]


@pytest.mark.parametrize("seed", range(6))
def test_of_every_instant_it_is_known_when_each_secret_stops_to_sign(sandbox: Sandbox, seed: int) -> None:
    """Also when later rotations ended it early, and when it was given again."""
    choices, projects = random.Random(seed), sandbox.world.service.projects
    signing: dict[str, list[str]] = {}
    for _ in range(120):
        now = to_iso(sandbox.world.clock.now())
        if choices.random() < (0.1, 0.3)[seed % 2]:
            known = [row["secret"] for row in projects.secrets("default")]
            projects.rotate_secret("default", choices.choice([None, None, *known[-6:]]))
        signing[now] = projects.signing_secrets("default", sandbox.world.clock.now())
        sandbox.advance("1h")
    hours = [*signing]
    early = 0
    for at, texts in signing.items():
        found = sandbox.ask("GET", f"/sandbox/v1/webhook-secret?at={at}")["secrets"]
        for one in found:
            later = [hour for hour in hours if hour >= at and one["secret"] not in signing[hour]]
            if one["secret"] in texts:
                assert one["until"] == later[0] if later else one["until"] is None or one["until"] > hours[-1], (
                    at,
                    one,
                )
            else:  # the rotation at this instant ended it
                assert one["until"] == at
                early += 1
    now_signing = sandbox.ask("GET", "/sandbox/v1/webhook-secret")["secrets"]
    assert all(one["until"] is None or one["until"] > hours[-1] for one in now_signing)
    assert early or not seed % 2


def test_at_most_three_secrets_sign(sandbox: Sandbox) -> None:
    projects = sandbox.world.service.projects
    [first] = projects.signing_secrets("default", sandbox.world.clock.now())
    rotated = [projects.rotate_secret("default") for _ in range(20)]
    assert len(signatures_after(sandbox, 1)) == 3
    known = sandbox.ask("GET", "/sandbox/v1/webhook-secret")
    assert [secret["secret"] for secret in known["secrets"]] == rotated[:-4:-1]
    assert first not in str(known)


def test_a_rotation_survives_a_restart(tmp_path: Path) -> None:
    with Sandbox(data=tmp_path) as sandbox, sandbox.world.exclusive():
        new = sandbox.world.service.projects.rotate_secret("default")
    with Sandbox(data=tmp_path) as again:
        assert len(signatures_after(again, 1)) == 2
        assert again.world.service.projects.secrets("default")[-1]["secret"] == new


def test_a_replaced_key_is_invalid_at_once_and_for_ever(tmp_path: Path) -> None:
    with Sandbox(data=tmp_path) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea")
        projects = sandbox.world.service.projects
        projects.rotate_key("default", "fresh")
        assert statuses(sandbox.app, "leyden", "fresh") == [401, 200]
        assert charge.data["id"] == charge.id, "a sandbox knows the key that it changed to"
        assert sandbox.http.get("/v0/charges").status_code == 200
        for wrong in ("leyden", "fresh", "", " x", "x" * 201, "clé"):
            with pytest.raises(ValueError, match=r"issued before|cannot be an API key"):
                projects.rotate_key("default", wrong)
    with Sandbox(data=tmp_path) as again:
        assert again.world.service.projects.project_for_key("leyden") is None
        assert again.world.service.projects.project_for_key("fresh") == "default"
        assert again.http.get("/v0/charges").status_code == 200


def test_a_key_replaced_over_the_control_plane_is_refused_from_then_on(sandbox: Sandbox) -> None:
    found = sandbox.ask("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "leyden", "key": "fresh"})
    assert found == {"key": "fresh", "keys": ["fresh"]}
    assert statuses(sandbox.app, "leyden", "fresh") == [401, 200]
    drawn = sandbox.ask("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "fresh"})["key"]
    assert len(drawn) == 36
    assert statuses(sandbox.app, "leyden", "fresh", drawn) == [401, 401, 200]


def test_a_second_key_lets_a_client_change_keys_without_a_gap(sandbox: Sandbox) -> None:
    found = sandbox.ask("POST", "/sandbox/v1/api-keys", {"key": "next"})
    assert found == {"key": "next", "keys": ["leyden", "next"]}
    assert len(sandbox.ask("POST", "/sandbox/v1/api-keys")["keys"]) == 3
    assert statuses(sandbox.app, "leyden", "next") == [200, 200]
    kept = sandbox.ask("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "leyden"})["keys"]
    assert kept[0] == "next"
    assert statuses(sandbox.app, "leyden", *kept) == [401, 200, 200, 200]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("api-keys", {"key": "leyden"}),
        ("api-keys/rotate", {"replaces": "leyden", "key": "leyden"}),
        ("api-keys/rotate", {"replaces": "somebody else's", "key": "fresh"}),
    ],
)
def test_a_key_that_cannot_be_issued_or_replaced_changes_nothing(
    sandbox: Sandbox, path: str, body: dict[str, str]
) -> None:
    with pytest.raises(ApiError, match="409"):
        sandbox.ask("POST", f"/sandbox/v1/{path}", body)
    assert statuses(sandbox.app, "leyden", "fresh") == [200, 401]


@pytest.mark.parametrize("wrong", ["", " x", "x ", "x" * 201, "clé", "a\nb"])
def test_an_invalid_key_is_refused_by_the_spec(sandbox: Sandbox, wrong: str) -> None:
    with pytest.raises(ApiError, match="400"):
        sandbox.ask("POST", "/sandbox/v1/api-keys", {"key": wrong})
    with pytest.raises(ValueError, match="cannot be an API key"):
        sandbox.world.service.projects.issue_key("default", wrong)


def test_a_reset_neither_revokes_a_key_nor_restores_one(sandbox: Sandbox) -> None:
    sandbox.ask("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "leyden", "key": "fresh"})
    sandbox.ask("POST", "/sandbox/v1/api-keys", {"key": "second"})
    sandbox.ask("POST", "/sandbox/v1/reset", {})
    assert statuses(sandbox.app, "leyden", "fresh", "second") == [401, 200, 200]
    with pytest.raises(ApiError, match="issued before"):
        sandbox.ask("POST", "/sandbox/v1/api-keys", {"key": "leyden"})


def test_a_reset_leaves_the_newest_key_the_newest(tmp_path: Path) -> None:
    with Sandbox(seed=1, data=tmp_path, api_key="first"):
        pass
    with Sandbox(data=tmp_path, api_key="second") as sandbox:
        sandbox.world.reset()
        assert sandbox.api_key == "second"


def test_a_server_of_two_projects_accepts_the_new_key_of_one_of_them() -> None:
    with Sandbox(seed=1, api_key="one") as first, Sandbox(seed=2, api_key="two") as second:
        host = MultiTenantApp({"one": first.world, "two": second.world})
        second.charges.create(amount="1000", description="tea")
        with second.world.exclusive():
            second.world.service.projects.rotate_key("default", "three")
        answers = {
            key: send_request(host, "GET", "/v0/charges", ((b"apikey", key.encode()),))
            for key in ("one", "two", "three")
        }
        assert {key: answer.status for key, answer in answers.items()} == {"one": 200, "two": 401, "three": 200}
        assert b"tea" in answers["three"].body
        assert b"tea" not in answers["one"].body


def test_a_key_that_another_project_of_the_server_had_is_refused() -> None:
    with Sandbox(seed=1, api_key="one") as first, Sandbox(seed=2, api_key="two") as second:
        host = MultiTenantApp({"one": first.world, "two": second.world})
        second.ask("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "two", "key": "three"})
        for taken in ("one", "two", "three"):
            with pytest.raises(ApiError, match="issued before"):
                first.ask("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "one", "key": taken})
        assert statuses(host, "one", "two", "three") == [200, 401, 200]


def test_a_server_does_not_start_with_a_key_of_another_of_its_projects() -> None:
    with Sandbox(seed=1, api_key="one") as first, Sandbox(seed=2, api_key="two") as second:
        first.ask("POST", "/sandbox/v1/api-keys", {"key": "two"})
        with pytest.raises(LeydenError, match="another project"):
            MultiTenantApp({"one": first.world, "two": second.world})
