"""Projects: keys that end at once, and secrets that overlap for a day."""

from __future__ import annotations

from pathlib import Path

import pytest
from freezegun import freeze_time
from standardwebhooks.webhooks import Webhook

from server.moments import to_iso
from sim import Sandbox
from sim.desk.host import Host
from sim.handles import ApiError
from sim.loopback import ask

HOOK = "http://shop.localhost/hook"


def told_after(sandbox: Sandbox, seconds: float) -> list[str]:
    """The signatures of a callback that goes out so much later."""
    sandbox.advance(seconds - 1)
    sandbox.charges.create(amount="1000", description="tea", expiresIn=1, callbackUrl=HOOK)
    sandbox.advance(1)
    got = sandbox.receiver("shop").inbox[-1]
    assert got.verdict == []
    return got.headers["webhook-signature"].split(" ")


def test_for_a_day_both_secrets_sign_and_then_only_the_new(sandbox: Sandbox) -> None:
    projects = sandbox.world.service.projects
    [old] = projects.secrets_of("default", sandbox.world.clock.now())
    new = projects.rotate_secret("default")
    assert new.startswith("whsec_")
    for seconds, secrets in ((1, [new, old]), (86_397, [new, old]), (2, [new])):
        assert len(told_after(sandbox, seconds)) == len(secrets)
        got = sandbox.receiver("shop").inbox[-1]
        with freeze_time(to_iso(got.at)):
            for secret in secrets:
                assert Webhook(secret).verify(got.body, dict(got.headers)) == got.json


def test_two_rotations_in_a_day_leave_three_secrets_signing(sandbox: Sandbox) -> None:
    projects = sandbox.world.service.projects
    projects.rotate_secret("default")
    sandbox.advance("12h")
    projects.rotate_secret("default")
    assert len(told_after(sandbox, 1)) == 3
    assert len(told_after(sandbox, 43_199)) == 2
    assert len(told_after(sandbox, 43_200)) == 1
    assert [secret["until_ms"] is None for secret in projects.secrets("default")] == [False, False, True]
    assert projects.secrets("nobody") == []


def test_a_rotation_outlives_a_restart(tmp_path: Path) -> None:
    with Sandbox(data=tmp_path) as sandbox, sandbox.world.turn():
        new = sandbox.world.service.projects.rotate_secret("default")
    with Sandbox(data=tmp_path) as again:
        assert len(told_after(again, 1)) == 2
        assert again.world.service.projects.secrets("default")[-1]["secret"] == new


def test_a_key_that_was_replaced_opens_nothing_at_once_and_for_good(tmp_path: Path) -> None:
    with Sandbox(data=tmp_path) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea")
        projects = sandbox.world.service.projects
        projects.rotate_key("default", "fresh")
        with pytest.raises(ApiError, match="401"):
            charge.data  # noqa: B018
        answer = sandbox.http.get(f"/v0/charges/{charge.id}", headers={"apikey": "fresh"})
        assert answer.json()["data"]["id"] == charge.id
        for wrong in ("leyden", "fresh", "", " x", "x" * 201, "clé"):
            with pytest.raises(ValueError, match=r"given out before|cannot be an API key"):
                projects.rotate_key("default", wrong)
    with Sandbox(data=tmp_path) as again:
        assert again.world.service.projects.owner("leyden") is None
        assert again.world.service.projects.owner("fresh") == "default"


def test_a_server_of_two_projects_knows_a_key_that_one_of_them_changed_to() -> None:
    with Sandbox(seed=1, api_key="one") as first, Sandbox(seed=2, api_key="two") as second:
        host = Host({"one": first.world, "two": second.world})
        second.charges.create(amount="1000", description="tea")
        with second.world.turn():
            second.world.service.projects.rotate_key("default", "three")
        answers = {
            key: ask(host, "GET", "/v0/charges", ((b"apikey", key.encode()),)) for key in ("one", "two", "three")
        }
        assert {key: answer.status for key, answer in answers.items()} == {"one": 200, "two": 401, "three": 200}
        assert b"tea" in answers["three"].body
        assert b"tea" not in answers["one"].body
