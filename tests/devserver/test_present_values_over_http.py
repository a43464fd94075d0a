"""What `HttpSandbox` and `leyden_server` show after the server changed it: seed, webhook secret, API key."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from leyden.errors import ApiError, LeydenError
from leyden.http_sandbox import HttpSandbox, create_sandbox
from leyden.sandbox import Sandbox
from tests.support.http_servers import answering, handling
from tests.support.served import served_leyden

pytest_plugins = ["pytester"]

ROTATE_SECRET, KEYS = "/sandbox/v1/webhook-secret/rotate", "/sandbox/v1/api-keys"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served_leyden("--rate", "0") as client:
        yield client.url


@pytest.fixture
def box(url: str) -> Iterator[HttpSandbox]:
    with create_sandbox(url, seed=7, rate=0, start="2030-01-01T00:00:00Z") as box:
        yield box


def other_client(box: HttpSandbox) -> HttpSandbox:
    """Another client of the same sandbox."""
    created = {name: getattr(box, name) for name in ("id", "name", "url")}
    return HttpSandbox({**created, "serverUrl": box.server_url, "apiKey": box.api_key})


def _restored(box: HttpSandbox) -> None:
    taken = box.snapshot()
    box.reset(seed=8)
    assert box.seed == 8
    box.restore(taken)


@pytest.mark.parametrize(
    ("change", "seed"),
    [
        (lambda box: box.reset(), None),
        (lambda box: box.reset(seed=9), 9),
        (lambda box: other_client(box).reset(seed=10), 10),
        (_restored, 7),
    ],
    ids=["reset", "reset with a seed", "another client", "restore"],
)
def test_the_seed_is_that_of_the_present_run(
    box: HttpSandbox, change: Callable[[HttpSandbox], object], seed: int | None
) -> None:
    assert box.seed == 7
    change(box)
    shown = box.ask("GET", "/sandbox/v1")["seed"]
    assert box.seed == shown
    assert shown == seed or (seed is None and shown != 7)


def test_the_webhook_secret_follows_each_rotation(box: HttpSandbox) -> None:
    first = box.webhook_secret
    assert box.ask("POST", ROTATE_SECRET)["current"] == box.webhook_secret != first
    second = other_client(box).ask("POST", ROTATE_SECRET)["current"]
    assert box.webhook_secret == second
    assert box.reset().webhook_secret == second


def test_the_api_key_follows_what_this_object_creates_and_replaces_as_in_process(box: HttpSandbox) -> None:
    with Sandbox(seed=7) as inside:
        for one in (inside, box):
            created = one.ask("POST", KEYS, {"key": "second"})
            assert (created["key"], one.api_key) == ("second", "second")
            assert one.ask("POST", f"{KEYS}/rotate", {"replaces": "second", "key": "third"})["key"] == one.api_key
            assert one.api_key == "third"
            assert one.ask("GET", "/v0/charges")["data"] == []


def test_a_key_that_another_client_replaced_is_refused_with_what_to_do(box: HttpSandbox) -> None:
    new = other_client(box).ask("POST", f"{KEYS}/rotate", {"replaces": box.api_key})["key"]
    with pytest.raises(ApiError, match=r"^401 .*set api_key of this object to the new one") as refused:
        box.charges.create(amount="1000", description="tea")
    assert refused.value.status == 401
    assert refused.value.problem["code"] == "unauthorized"
    box.api_key = new
    assert box.charges.create(amount="1000", description="tea").status == "pending"


def test_leyden_server_follows_them_on_a_running_server(pytester: pytest.Pytester, url: str) -> None:
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider -p no:schemathesis -p no:xdist\n")
    pytester.makepyfile("""
        def test_it(leyden_server):
            box = leyden_server.sandbox
            secret = box.ask("POST", "/sandbox/v1/webhook-secret/rotate")["current"]
            assert leyden_server.webhook_secret == secret
            key = box.ask("POST", "/sandbox/v1/api-keys/rotate", {"replaces": leyden_server.api_key})["key"]
            assert leyden_server.api_key == key
            assert box.ask("GET", "/v0/charges")["data"] == []
    """)
    for options in (["--leyden-url", url], []):
        pytester.runpytest_inprocess(*options).assert_outcomes(passed=1)


@pytest.mark.parametrize("name", ["seed", "webhook_secret"])
def test_another_program_than_leyden_is_named(name: str) -> None:
    created = {"id": "a", "name": None, "serverUrl": "", "apiKey": "key"}
    with handling(answering(b'{"data": []}')) as url, pytest.raises(LeydenError, match="did not answer as Leyden does"):
        getattr(HttpSandbox({**created, "url": url}), name)
