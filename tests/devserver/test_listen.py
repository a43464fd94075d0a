"""`leyden listen`: messages of a served inbox are forwarded with a valid signature and printed one per line."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import sleep
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.__main__ import main
from leyden.commands.receivers import EXAMPLE_SECRET
from leyden.devserver.listen import ControlClient, Cursor, NotThere, _forward_new, _line, forwarded_request
from leyden.server.callbacks.signing import sign
from leyden.server.ports import CallbackResponse
from leyden.server.system.http_client.transport import HttpTransport
from leyden.server.timestamps import to_iso
from tests.support.deep import sampled
from tests.support.encodings import encodings
from tests.support.example_receivers import CarefulReceiver, serving_receiver
from tests.support.forked import Process, forked_leyden
from tests.support.http_servers import answering, handling
from tests.support.served import Client, listening_receiver, served_leyden

NOW_S = 1_900_000_000


def got(stamp_s: int, *, at_s: int, body: str = '{"id":"1"}', **changed: str) -> dict:
    signature = sign([EXAMPLE_SECRET], "msg_1", stamp_s, body)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(stamp_s), "webhook-signature": signature, **changed}
    url = "http://shop.inbox.localhost/paid?order=7"
    return {"at": to_iso(at_s * 1_000), "url": url, "attempt": 1, "headers": headers, "body": body}


@given(st.integers(100, 3_000_000_000), st.integers(-900, 900), st.text())
def test_a_valid_message_keeps_its_distance_from_the_current_time(at_s: int, off_s: int, body: str) -> None:
    stamp_s = max(0, at_s + off_s)
    post = forwarded_request(got(stamp_s, at_s=at_s, body=body), "http://localhost:3000/hook", [EXAMPLE_SECRET], NOW_S)
    moved = int(post.headers["webhook-timestamp"])
    assert moved - NOW_S == stamp_s - at_s
    assert post.headers["webhook-signature"] == sign([EXAMPLE_SECRET], "msg_1", moved, body)
    assert post.body.decode() == body


@pytest.mark.parametrize("signature", ["v1,bm9uc2Vuc2U=", "", "nonsense", "v2,bm9uc2Vuc2U= v1,bm9uc2Vuc2U="])
def test_a_forged_message_stays_invalid(signature: str) -> None:
    forged = got(1_000, at_s=1_000, **{"webhook-signature": signature})
    post = forwarded_request(forged, "http://localhost:3000/hook", [EXAMPLE_SECRET], NOW_S)
    assert post.headers["webhook-signature"] == signature


def test_only_the_valid_one_of_two_signatures_is_replaced() -> None:
    two = got(1_000, at_s=1_000)
    two["headers"]["webhook-signature"] = "v1,bm9uc2Vuc2U= " + two["headers"]["webhook-signature"]
    post = forwarded_request(two, "http://localhost:3000/hook", [EXAMPLE_SECRET], NOW_S)
    foreign, sound = post.headers["webhook-signature"].split(" ")
    assert (foreign, sound) == ("v1,bm9uc2Vuc2U=", sign([EXAMPLE_SECRET], "msg_1", NOW_S, '{"id":"1"}'))


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("http://localhost:3000/hook", "http://localhost:3000/hook"),
        ("http://localhost:3000/hook?a=b", "http://localhost:3000/hook?a=b"),
        ("http://localhost:3000", "http://localhost:3000/paid?order=7"),
        ("http://localhost:3000/", "http://localhost:3000/paid?order=7"),
    ],
)
def test_without_a_path_the_callbacks_path_is_kept(target: str, url: str) -> None:
    assert forwarded_request(got(1_000, at_s=1_000), target, [EXAMPLE_SECRET], NOW_S).url == url


@contextmanager
def listening_in(*arguments: str) -> Iterator[Process]:
    process = forked_leyden("listen", *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def begun(process: Process) -> None:
    """Read the two lines of the beginning."""
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Listening to ")
    assert process.stdout.readline().startswith("The inbox has answered")


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("simultaneous", "copy of attempt 1, webhook-id {}, "),
        ("duplicate", "copy of attempt 1, webhook-id {}, "),
        ("redeliver", "copy of attempt 1, webhook-id {}, "),
        ("duplicate_new_id", "copy of attempt 1, webhook-id {}, "),
    ],
)
def test_a_copy_that_a_fault_sends_is_named_as_a_copy_with_its_id(kind: str, role: str) -> None:
    with served_leyden("--rate", "0", "--seed", "5") as client:
        secret = client.ok("GET", "/sandbox/v1/webhook-secret")["current"]
        with (
            serving_receiver(CarefulReceiver, secret) as (url, _),
            listening_in(url, "--server", client.url) as process,
        ):
            begun(process)
            assert process.stdout is not None
            client.ok("POST", "/sandbox/v1/faults", {"kind": kind})
            pay(client, "http://shop.inbox.localhost/paid")
            client.ok("POST", "/sandbox/v1/clock/advance", {"by": "25h"})
            assert "  attempt 1, inbox answered 200; " in process.stdout.readline()
            line = process.stdout.readline()
            posts = client.ok("GET", "/sandbox/v1/inboxes/shop.inbox")["posts"]
            assert f"  {role.format(posts[1]['headers']['webhook-id'])}" in line
            assert [got["copy"] for got in posts] == [False, True]


def test_a_copy_of_a_later_attempt_under_a_new_id_is_named_as_a_copy() -> None:
    with (
        served_leyden("--rate", "0", "--seed", "5") as client,
        listening_receiver() as (url, _),
        listening_in(url, "--server", client.url) as process,
    ):
        begun(process)
        client.ok("PUT", "/sandbox/v1/inboxes/shop.inbox/script", {"answers": [500]})
        client.ok("POST", "/sandbox/v1/faults", {"kind": "duplicate_new_id", "attempt": 2})
        pay(client, "http://shop.inbox.localhost/paid")
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": "25h"})
        assert process.stdout is not None
        first, second, copy = (process.stdout.readline() for _ in range(3))
        assert "  attempt 1, " in first
        assert "  attempt 2, " in second
        posts = client.ok("GET", "/sandbox/v1/inboxes/shop.inbox")["posts"]
        assert f"  copy of attempt 2, webhook-id {posts[2]['headers']['webhook-id']}, " in copy
        assert [got["copy"] for got in posts] == [False, False, True]


def test_it_leaves_no_trace_in_the_journal() -> None:
    with served_leyden("--rate", "0", "--seed", "5") as client:
        before = client.ok("GET", "/sandbox/v1")["journalHash"]
        with listening_receiver() as (url, _), listening_in(url, "--server", client.url) as process:
            begun(process)
            waits = "/sandbox/v1/requests?operation=waitForDeliveries"
            while len(client.ok("GET", waits)["data"]) < 2:
                sleep(0.05)
        assert client.ok("GET", "/sandbox/v1")["journalHash"] == before


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            {"kind": "missing_headers"},
            r"  Charge \S+, without webhook-id, webhook-timestamp, webhook-signature  attempt",
        ),
        (
            {"kind": "missing_headers", "headers": ["leyden-event"]},
            r"\(no event\)  Charge \S+, without leyden-event  att",
        ),
        ({"kind": "truncated_body"}, r"charge.completed  \(no Charge\)  attempt 1"),
    ],
    ids=str,
)
def test_a_line_says_what_a_message_lacks(fault: dict, said: str) -> None:
    with (
        served_leyden("--rate", "0", "--seed", "5") as client,
        serving_receiver(CarefulReceiver, EXAMPLE_SECRET) as (url, _),
        listening_in(url, "--server", client.url) as process,
    ):
        begun(process)
        client.ok("POST", "/sandbox/v1/faults", fault)
        pay(client, "http://shop.inbox.localhost/paid")
        assert process.stdout is not None
        assert re.search(said, process.stdout.readline())


def test_a_copy_of_an_attempt_that_was_made_before_the_command_started_is_named_as_a_copy() -> None:
    with served_leyden("--rate", "0", "--seed", "5") as client:
        secret = client.ok("GET", "/sandbox/v1/webhook-secret")["current"]
        client.ok("PUT", "/sandbox/v1/inboxes/shop.inbox/script", {"answers": [500]})
        pay(client, "http://shop.inbox.localhost/paid")
        client.ok("POST", "/sandbox/v1/faults", {"kind": "redeliver"})
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": "10s"})
        posts = client.ok("GET", "/sandbox/v1/inboxes/shop.inbox")["posts"]
        assert [(got["attempt"], got["copy"]) for got in posts] == [(1, False), (2, False)]
        with (
            serving_receiver(CarefulReceiver, secret) as (url, _),
            listening_in(url, "--server", client.url) as process,
        ):
            begun(process)
            client.ok("POST", "/sandbox/v1/clock/advance", {"by": "25h"})
            assert process.stdout is not None
            line = process.stdout.readline()
            number, webhook_id = posts[1]["attempt"], posts[1]["headers"]["webhook-id"]
            assert f"copy of attempt {number}, webhook-id {webhook_id}, " in line
        posts = client.ok("GET", "/sandbox/v1/inboxes/shop.inbox")["posts"]
        assert [(got["attempt"], got["copy"]) for got in posts] == [(1, False), (2, False), (2, True)]


def pay(client: Client, url: str) -> str:
    body = {"amount": "21000", "description": "tea", "callbackUrl": url}
    charge = client.ok("POST", "/v0/charges", body)["data"]
    client.ok("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
    return charge["id"]


def test_a_receiver_with_a_real_clock_accepts_messages_of_a_sandbox_in_another_year() -> None:
    with served_leyden("--rate", "0", "--start", "2030-01-01T00:00:00Z", "--seed", "5") as client:
        secret = client.ok("GET", "/sandbox/v1/webhook-secret")["current"]
        early = pay(client, "http://shop.inbox.localhost/paid")
        with (
            serving_receiver(CarefulReceiver, secret) as (url, books),
            listening_in(url, "--server", client.url) as process,
        ):
            assert process.stdout is not None
            assert client.url in process.stdout.readline()
            assert "causes no retry" in process.stdout.readline()
            first = pay(client, "http://shop.inbox.localhost/paid")
            assert (
                f"Charge {first}  attempt 1, inbox answered 200; forwarded: your program answered 200"
                in process.stdout.readline()
            )
            client.ok("POST", "/sandbox/v1/faults", {"kind": "changed_body"})
            forged = pay(client, "http://blog.inbox.localhost/paid")
            line = process.stdout.readline()
            assert f"{forged}  attempt 1, inbox answered 200; forwarded: your program answered 401" in line
            assert "blog.inbox" in line
            client.ok("PUT", "/sandbox/v1/inboxes/shop.inbox/script", {"answers": [500]})
            second = pay(client, "http://shop.inbox.localhost/paid")
            client.ok("POST", "/sandbox/v1/clock/advance", {"by": "10s"})
            assert "attempt 1, inbox answered 500; forwarded: your program answered 200" in process.stdout.readline()
            assert "attempt 2, inbox answered 200; forwarded: your program answered 200" in process.stdout.readline()
            client.ok("POST", "/sandbox/v1/reset", {})
            again = pay(client, "http://shop.inbox.localhost/paid")
            assert again != early
            assert process.stdout.readline().startswith("The sandbox was reset or restored")
            assert (
                f"{again}  attempt 1, inbox answered 200; forwarded: your program answered 200"
                in process.stdout.readline()
            )
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=20)
            assert (process.returncode, out, errors) == (0, "", "")
        assert set(books.charges) == {first, second, again}


def test_a_message_is_signed_again_with_the_secret_of_its_time() -> None:
    begins, ends = threading.Event(), threading.Event()

    class Busy(CarefulReceiver):
        """Answers its first message when the test says so."""

        def receive(self, body: bytes) -> tuple[int, str]:
            begins.set()
            ends.wait(10)
            return super().receive(body)

    with served_leyden("--rate", "0", "--start", "2030-01-01T00:00:00Z", "--seed", "5") as client, ExitStack() as stack:
        secret = client.ok("GET", "/sandbox/v1/webhook-secret")["current"]
        url, books = stack.enter_context(serving_receiver(Busy, secret))
        process = stack.enter_context(listening_in(url, "--server", client.url))
        stack.callback(ends.set)
        begun(process)
        charges = [pay(client, "http://shop.inbox.localhost/paid")]
        assert begins.wait(20)
        charges.append(pay(client, "http://shop.inbox.localhost/paid"))
        client.ok("POST", "/sandbox/v1/webhook-secret/rotate")
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": "25h"})
        ends.set()
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in charges]
        assert ["your program answered 200" in line for line in lines] == [True, True], lines
        assert set(books.charges) == {*charges}


@pytest.mark.parametrize(("verdict", "told"), [([], True), (["no signature matches a valid secret"], False)])
def test_a_line_says_that_a_valid_message_could_not_be_signed_again(verdict: list[str], told: bool) -> None:
    received = {**got(1_000, at_s=1_000), "verdict": verdict, "event": "charge.completed", "answer": 200}
    for secrets, expected in (([EXAMPLE_SECRET], False), ([], told)):
        sent = forwarded_request(received, "http://localhost:3000/hook", secrets, NOW_S)
        line = _line("shop", received, sent, CallbackResponse(status=401), "attempt 1")
        assert ("signature that is invalid now" in line) == expected


def test_after_a_reset_every_callback_of_the_new_run_is_forwarded() -> None:
    with served_leyden("--rate", "0", "--seed", "5") as client:
        secret = client.ok("GET", "/sandbox/v1/webhook-secret")["current"]
        with (
            serving_receiver(CarefulReceiver, secret) as (url, _),
            listening_in(url, "--server", client.url) as process,
        ):
            begun(process)
            assert process.stdout is not None
            for _ in range(3):
                charge = pay(client, "http://shop.inbox.localhost/paid")
                assert charge in process.stdout.readline()
            for seed in (5, 6):
                client.ok("POST", "/sandbox/v1/reset", {"seed": seed})
                charges = [pay(client, "http://shop.inbox.localhost/paid") for _ in range(4)]
                assert process.stdout.readline().startswith("The sandbox was reset or restored")
                for charge in charges:
                    assert charge in process.stdout.readline()


@pytest.mark.parametrize("kept", ["memory", "directory"])
def test_after_a_restore_only_what_is_received_anew_is_forwarded(kept: str, tmp_path: Path) -> None:
    options = ("--data", str(tmp_path)) if kept == "directory" else ()
    inboxes = "http://shop.inbox.localhost/paid", "http://blog.inbox.localhost/paid"
    with served_leyden("--rate", "0", "--seed", "5", *options) as client, ExitStack() as listener:
        secret = client.ok("GET", "/sandbox/v1/webhook-secret")["current"]
        url, _ = listener.enter_context(serving_receiver(CarefulReceiver, secret))
        for inbox in inboxes:
            pay(client, inbox)
        process = listener.enter_context(listening_in(url, "--server", client.url))
        begun(process)
        assert process.stdout is not None
        assert pay(client, inboxes[0]) in process.stdout.readline()
        snapshot = client.ok("POST", "/sandbox/v1/snapshots", {})["id"]
        repeated = pay(client, inboxes[0])
        assert repeated in process.stdout.readline()
        for restores in (1, 2):
            client.ok("POST", "/sandbox/v1/restore", {"snapshot": snapshot})
            assert pay(client, inboxes[0]) == repeated
            assert process.stdout.readline().startswith("The sandbox was reset or restored")
            line = process.stdout.readline()
            assert repeated in line, restores
            later = pay(client, inboxes[1])
            assert later in process.stdout.readline()
            assert pay(client, "http://new.localhost/paid") in process.stdout.readline()
            listed = client.ok("GET", "/sandbox/v1/inboxes")["data"]
            assert [(one["name"], one["received"], one["restored"]) for one in listed] == [
                ("shop.inbox", 3, 2),
                ("blog.inbox", 2, 1),
                ("new", 1, 0),
            ]
        client.ok("POST", "/sandbox/v1/reset", {})
        charge = pay(client, inboxes[0])
        assert process.stdout.readline().startswith("The sandbox was reset or restored")
        assert charge in process.stdout.readline()
        assert [one["restored"] for one in client.ok("GET", "/sandbox/v1/inboxes")["data"]] == [0]


def test_a_reset_that_loses_messages_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def summary(name: str, received: int, run: int) -> dict[str, object]:
        return {"name": name, "run": run, "received": received, "restored": 0}

    cursor = Cursor()
    cursor.follow(1)
    assert capsys.readouterr().out == "", "the first run is no change"
    cursor.listed([summary("shop", 3, 1), summary("blog", 1, 1)])
    cursor.forwarded("shop", 1)
    cursor.follow(2)
    assert "reset or restored, and at least 3 messages that were not forwarded yet are lost" in capsys.readouterr().out
    cursor.listed([summary("shop", 1, 2)])
    cursor.forwarded("shop", 1)
    cursor.follow(3)
    assert capsys.readouterr().out == (
        "The sandbox was reset or restored, and a message of before that has no line here is lost: forwarding what it"
        " receives now\n"
    )


def test_messages_that_the_server_removed_before_they_were_read_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    class Keep:
        """The answers of a server that has removed what the inbox received."""

        async def ask(self, method: str, path: str, body: object = None) -> object:
            if path.startswith("/inboxes?"):
                return {"data": [{"name": "shop", "run": 1, "received": 9, "restored": 0}], "next": None}
            return {"run": 1, "posts": []} if "shop" in path else {"secrets": []}

    cursor = Cursor(1, {"shop": 3})
    cursor.reached("shop", 4)
    assert capsys.readouterr().out == ""
    cursor.reached("shop", 6)
    assert capsys.readouterr().out.startswith("shop: 2 messages removed before they could be forwarded")
    asyncio.run(_forward_new(cast(ControlClient, Keep()), HttpTransport(), "http://localhost:3000/", cursor))
    assert capsys.readouterr().out.startswith("shop: 4 messages removed before they could be forwarded")
    assert cursor.read == {"shop": 9}


def test_an_inbox_that_a_reset_deletes_does_not_end_it() -> None:
    class Reset:
        """The answers of a sandbox that is reset between two requests."""

        def __init__(self) -> None:
            self.paths: list[str] = []

        async def ask(self, method: str, path: str, body: object = None) -> object:
            self.paths.append(path)
            if path.startswith("/inboxes?"):
                first, second = (
                    {"name": "shop", "run": 1, "received": 2, "restored": 0},
                    {"name": "blog", "run": 1, "received": 1, "restored": 0},
                )
                if "after=" in path:
                    return {"data": [second], "next": None}
                return {"data": [first], "next": "0000000000000001"}
            raise NotThere("no inbox")

    client = Reset()
    cursor = Cursor()
    asyncio.run(_forward_new(cast(ControlClient, client), HttpTransport(), "http://localhost:3000/", cursor))
    assert [path.partition("?")[0] for path in client.paths] == ["/inboxes"] * 2 + ["/inboxes/shop", "/inboxes/blog"]


def test_a_page_of_another_run_is_read_again_from_its_beginning() -> None:
    class Reset:
        """The answers of a sandbox that is reset between the list of its inboxes and the first page."""

        run = 1
        asked: list[str]

        async def ask(self, method: str, path: str, body: object = None) -> object:
            self.asked.append(path.partition("&")[0])
            if path.startswith("/inboxes?"):
                return {"data": [{"name": "shop", "run": self.run, "received": 9, "restored": 0}], "next": None}
            self.run = 2
            return {"run": 2, "posts": []} if "shop" in path else {"secrets": []}

    client, cursor = Reset(), Cursor(1, {"shop": 3})
    for path in ("/inboxes/shop?after=3", "/inboxes/shop?after=0"):
        client.asked = []
        asyncio.run(_forward_new(cast(ControlClient, client), HttpTransport(), "http://localhost:3000/", cursor))
        assert client.asked[1] == path


def test_interrupts_in_quick_succession_print_nothing() -> None:
    with served_leyden("--rate", "0") as client:
        for _ in range(3):
            with listening_in("http://localhost:3000/", "--server", client.url) as process:
                begun(process)
                for _ in range(3):
                    process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=20)
                assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("url", ["http://10.1.2.3/hook", "http://[fe80::1]/hook", "http://127.0.0.1:22/hook"])
def test_a_url_that_egress_forbids_is_refused_at_the_start(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["listen", url, "--server", "http://127.0.0.1:9"]) == 1
    words = capsys.readouterr().err
    assert "loopback-only: " in words or "port: " in words


@pytest.mark.parametrize("server", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
@pytest.mark.parametrize("target", sampled(["127.0.0.1", "localhost", "LocalHost", "2130706433", "pay.example"], 5))
def test_the_url_of_the_server_itself_is_refused_at_the_start(
    server: str, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served_leyden("--rate", "0", "--public-url", "http://pay.example:8080", "--api-key", "k1") as client:
        port = client.url.rpartition(":")[2]
        url = f"http://{target}:{8080 if target == 'pay.example' else port}/hook"
        assert main(["listen", url, "--server", f"http://{server}:{port}", "--api-key", "k1"]) == 1
        assert "is this server itself: give the address of your receiver" in capsys.readouterr().err


def test_it_reconnects_after_a_restart_of_the_server() -> None:
    with serving_receiver(CarefulReceiver, EXAMPLE_SECRET) as (url, _), ExitStack() as listener:
        with served_leyden("--rate", "0") as client:
            port = client.url.rpartition(":")[2]
            process = listener.enter_context(listening_in(url, "--server", client.url))
            begun(process)
            assert process.stdout is not None
        line = process.stdout.readline()
        assert re.search(r" \((Connection refused|Server disconnected|Connection reset by peer)\): ", line), line
        assert line.endswith("; still listening\n")
        with served_leyden("--rate", "0", "--port", port) as client:
            charge = pay(client, "http://inbox.localhost/paid")
            assert charge in process.stdout.readline()


@pytest.mark.parametrize(
    ("arguments", "status", "word"),
    [
        (("nonsense",), 2, "URL"),
        (("http://localhost:3000/", "--server", "http://127.0.0.1:9"), 1, "leyden serve"),
        (("http://localhost:3000/", "--server", "nonsense"), 2, "URL"),
    ],
)
def test_a_bad_option_is_one_clear_line(
    arguments: tuple[str, ...], status: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        ended = main(["listen", *arguments])
    except SystemExit as error:
        ended = int(error.code or 0)
    assert ended == status
    assert word in capsys.readouterr().err.splitlines()[-1]


def test_a_wrong_key_and_a_missing_control_plane_are_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with served_leyden("--no-control") as client:
        assert main(["listen", "http://localhost:3000/", "--server", client.url]) == 1
        assert "control plane" in capsys.readouterr().err
    with served_leyden() as client:
        assert main(["listen", "http://localhost:3000/", "--server", client.url, "--api-key", "wrong"]) == 1
        error = capsys.readouterr().err
        assert "refused the API key: the key (5 characters) is unknown" in error
        assert error.endswith("give the key with --api-key\n")


@pytest.mark.parametrize("status", [400, 401])
def test_no_error_has_the_key_that_a_server_answers(status: int, capsys: pytest.CaptureFixture[str]) -> None:
    key = "key-of-a-project"
    body = json.dumps({"detail": f"unknown: {key} {key.encode().hex()}", "code": "unauthorized"}).encode()
    with handling(answering(body, status)) as url:
        server = url.removesuffix("/hook")
        assert main(["listen", "http://localhost:3000/", "--server", server, "--api-key", key]) == 1
    error = capsys.readouterr().err
    assert "unknown: (ke..., 16 characters)" in error
    assert not any(form in error for form in encodings(key))


def test_it_ends_with_the_reason_of_the_server_when_its_sandbox_is_deleted() -> None:
    with served_leyden("--rate", "0") as client:
        sandbox = client.ok("POST", "/sandbox/v1/sandboxes", {})
        target = ("http://localhost:3000/", "--server", sandbox["url"], "--api-key", sandbox["apiKey"])
        with listening_in(*target) as process:
            begun(process)
            assert process.stdout is not None
            assert client("DELETE", f"/sandbox/v1/sandboxes/{sandbox['id']}")[0] in (200, 204)
            _, error = process.communicate(timeout=20)
            assert (process.returncode, error.count("\n")) == (1, 1)
            assert f"refused the API key: the sandbox {sandbox['id']} was deleted" in error
        with listening_in(*target) as process:
            _, error = process.communicate(timeout=20)
            assert f"refused the API key: the sandbox {sandbox['id']} was deleted" in error
