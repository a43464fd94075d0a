"""The pytest plugin, in the test suite of an integrator."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from urllib.request import Request, urlopen

import orjson
import pytest

from leyden import pytest_plugin
from leyden.pytest_plugin import LiveServer
from tests.support.deep import sampled

pytest_plugins = ["pytester"]

# Other plugins take longer to load than these suites to run.
CONFIG = """[pytest]
addopts = -p no:cacheprovider -p no:schemathesis -p no:xdist
filterwarnings = error
"""


SECRET = "whsec_" + "QUJD" * 8


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Iterator[pytest.Pytester]:
    """The suite of an integrator."""
    pytester.makeini(CONFIG)
    return pytester


def create(server: LiveServer, description: str) -> dict[str, object]:
    body = orjson.dumps({"amount": "1000", "description": description, "callbackUrl": "http://shop.localhost/paid"})
    headers = {"apikey": server.api_key, "content-type": "application/json"}
    with urlopen(Request(f"{server}/v0/charges", body, headers), timeout=10) as answer:
        data: dict[str, object] = orjson.loads(answer.read())["data"]
    return data


def test_three_lines_are_a_suite(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        def test_it_expires(sandbox):
            charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
            assert sandbox.advance("60s") and charge.status == "expired"
    """)
    suite.runpytest_inprocess().assert_outcomes(passed=1)


def test_every_test_has_its_own_world_at_the_same_address(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import json
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen
        import pytest

        seen, last = [], []

        def ask(server, path, body=None):
            headers = {"apikey": server.api_key, "content-type": "application/json"}
            with urlopen(Request(server + path, body and json.dumps(body).encode(), headers), timeout=10) as answer:
                return json.load(answer)

        @pytest.mark.parametrize("turn", range(3))
        def test_a_world(leyden_server, turn):
            assert ask(leyden_server, "/v0/charges")["data"] == []
            charge = ask(leyden_server, "/v0/charges", {"amount": "1000", "description": "tea",
                         "callbackUrl": "http://shop.localhost/paid"})["data"]
            box = leyden_server.sandbox
            box.wallet("ana").pay(charge["invoice"]["request"])
            box.run()
            assert ask(leyden_server, "/v0/charges/" + charge["id"])["data"]["status"] == "completed"
            assert box.receiver("shop").inbox[0].json["id"] == charge["id"]
            tips = box.static_charges.create(minAmount="1000", maxAmount="1000", description="tips")
            from leyden.server.charges.lnurl import decode_lnurl
            assert decode_lnurl(tips.request).startswith(leyden_server + "/")
            seen.append((str(leyden_server), charge["id"]))

        def test_the_address_stays_and_no_id_is_used_twice():
            assert len({url for url, _ in seen}) == 1
            assert len({charge for _, charge in seen}) == 3

        def test_nobody_is_at_home_between_tests():
            with pytest.raises(HTTPError, match="503"):
                urlopen(seen[0][0] + "/v0/charges", timeout=10)
    """)
    suite.runpytest_inprocess().assert_outcomes(passed=5)


def test_seed_start_and_overlays_come_from_the_configuration_file(suite: pytest.Pytester) -> None:
    suite.makeini(CONFIG + "leyden_seed = 42\nleyden_start = 2031-02-03T04:05:06Z\nleyden_overlays = lenient\n")
    suite.makepyfile("""
        def test_the_world(sandbox):
            assert sandbox.now == "2031-02-03T04:05:06.000Z"
            sandbox.charges.create(amount=1000, description="an integer: lenient takes it")
    """)
    suite.runpytest_inprocess().assert_outcomes(passed=1)


def test_each_test_has_the_same_ids_in_every_run_and_one_secret_signs_them_all(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import json, pathlib, pytest

        @pytest.mark.parametrize("number", range(2))
        def test_ids(sandbox, module_sandbox, number):
            boxes = (sandbox, module_sandbox)
            made = [one.charges.create(amount="1000", description="tea").id for one in boxes]
            secrets = [one.ask("GET", "/sandbox/v1/webhook-secret")["current"] for one in boxes]
            with open("seen.jsonl", "a") as file:
                print(json.dumps([made, secrets]), file=file)
    """)
    seeds = ("", "leyden_seed = 0\n", "leyden_seed = 1\n")
    runs = []
    for options in (*seeds, f"leyden_webhook_secret = {SECRET}\n"):
        (suite.path / "seen.jsonl").unlink(missing_ok=True)
        suite.makeini(CONFIG + options)
        suite.runpytest_inprocess().assert_outcomes(passed=2)
        runs.append([orjson.loads(line) for line in (suite.path / "seen.jsonl").read_text().splitlines()])
    by_default, same, other, given = runs
    assert by_default == same
    assert [ids for ids, _ in given] == [ids for ids, _ in same]
    assert not {one for ids, _ in same for one in ids} & {one for ids, _ in other for one in ids}
    assert same[0][0] != same[1][0]
    secrets = [{one for _, both in run for one in both} for run in runs]
    assert [len(one) for one in secrets] == [1, 1, 1, 1]
    assert secrets[0] != secrets[2]
    assert secrets[3] == {SECRET}


def test_both_fixtures_of_a_scope_are_the_same_sandbox(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import pytest

        def test_both(sandbox, leyden_server):
            assert leyden_server.sandbox is sandbox
            assert (leyden_server.url, leyden_server.api_key) == (str(leyden_server), sandbox.api_key)
            assert sandbox.serve() == leyden_server
            assert leyden_server.webhook_secret == sandbox.ask("GET", "/sandbox/v1/webhook-secret")["current"]

        def test_the_other_order(leyden_server, sandbox):
            assert leyden_server.sandbox is sandbox
            assert len(sandbox.charges) == 0

        @pytest.mark.parametrize("name", ["module", "session"])
        def test_shared(request, name):
            server, box = request.getfixturevalue(f"{name}_leyden_server"), request.getfixturevalue(f"{name}_sandbox")
            assert server.sandbox is box

        def test_three_servers(leyden_server, module_leyden_server, session_leyden_server):
            servers = (leyden_server, module_leyden_server, session_leyden_server)
            assert len({*servers}) == len({server.sandbox.world.config.seed for server in servers}) == 3
    """)
    suite.runpytest_inprocess().assert_outcomes(passed=5)


def test_a_module_and_a_session_share_a_sandbox(suite: pytest.Pytester) -> None:
    module = """
        from urllib.request import Request, urlopen

        seen = []

        def test_first(module_sandbox, session_leyden_server):
            assert len(module_sandbox.charges) == 0
            seen[:] = [module_sandbox, session_leyden_server.sandbox]
            module_sandbox.charges.create(amount="1000", description="tea")
            session_leyden_server.sandbox.charges.create(amount="1000", description="tea")

        def test_second(module_sandbox, session_leyden_server, sandbox):
            assert len(module_sandbox.charges) == 1
            assert len(session_leyden_server.sandbox.charges) == COUNT
            assert seen == [module_sandbox, session_leyden_server.sandbox]
            assert len(sandbox.charges) == 0
            request = Request(session_leyden_server + "/v0/charges", headers={"apikey": session_leyden_server.api_key})
            assert urlopen(request, timeout=10).status == 200
    """
    suite.makepyfile(test_a=module.replace("COUNT", "1"), test_b=module.replace("COUNT", "2"))
    suite.runpytest_inprocess().assert_outcomes(passed=4)


def test_sandboxes_that_a_test_created_end_with_it(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import gc, threading
        from http.server import BaseHTTPRequestHandler, HTTPServer
        from leyden.http_sandbox import create_sandbox

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args):
                pass

        def test_created(leyden_server):
            receiver = HTTPServer(("127.0.0.1", 0), Receiver)
            threading.Thread(target=receiver.serve_forever, daemon=True).start()
            box = create_sandbox(leyden_server.url)
            url = f"http://127.0.0.1:{receiver.server_port}/"
            box.charges.create(amount="1000", description="tea", expiresIn=1, callbackUrl=url)
            box.run()
            assert box.deliveries()[0]["status"] == "delivered"
            receiver.shutdown()
            receiver.server_close()
            leyden_server.sandbox.close()

        def test_nothing_is_left_open(leyden_server):
            gc.collect()
            assert leyden_server.sandbox.ask("GET", "/sandbox/v1")["charges"] == {}
            assert leyden_server.sandbox._http.server_app.sandbox_count == 0
    """)
    suite.runpytest_inprocess().assert_outcomes(passed=2)


def test_where_callbacks_may_go_comes_from_the_configuration_file(suite: pytest.Pytester) -> None:
    program = """
        def result(box):
            box.charges.create(amount="1000", description="", callbackUrl="http://127.0.0.1:61999/x", expiresIn=1)
            box.run("2s")
            [delivery] = box.ask("GET", "/sandbox/v1/deliveries")["data"]
            return delivery["attempts"][0]["error"]

        def test_it(sandbox):
            assert result(sandbox) == EXPECTED[0]

        def test_it_served(leyden_server):
            assert result(leyden_server.sandbox) == EXPECTED[1]
    """
    for options, expected in (
        ("", ["blocked", "refused"]),
        ("leyden_egress = loopback", ["refused", "refused"]),
        ("leyden_egress = none", ["blocked", "blocked"]),
        ("leyden_egress = none\nleyden_egress_allow = 127.0.0.0/8", ["refused", "refused"]),
    ):
        suite.makeini(CONFIG + options + "\n")
        # Bytecode of an earlier program of the same second and size would be taken for that of this one.
        rmtree(suite.path / "__pycache__", ignore_errors=True)
        suite.makepyfile(program.replace("EXPECTED", repr(expected)))
        suite.runpytest_inprocess().assert_outcomes(passed=2)


def test_the_blocked_note_names_options_that_exist(leyden_server: LiveServer) -> None:
    box = leyden_server.sandbox

    def note() -> str:
        box.charges.create(amount="1000", description="", callbackUrl="http://192.0.2.1:22222/x", expiresIn=1)
        box.run("2s")
        text: str = box.ask("GET", "/sandbox/v1/deliveries")["data"][0]["attempts"][0]["note"]
        return text

    assert note().endswith(
        'call set_egress(egress_allow=["192.0.2.1/32"]) and replay this delivery; for a new sandbox, pass'
        ' egress_allow=["192.0.2.1/32"] to Sandbox, or set leyden_egress_allow in pytest'
    )
    box.set_egress(egress_allow=["198.51.100.0/24"])
    assert note().startswith("loopback-only: ")  # the mode stays
    box.set_egress("none").set_egress(egress_allow=["198.51.100.0/24"])
    assert note().startswith("egress-none: ")


def test_the_callback_timeout_comes_from_the_configuration_file(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import socket

        def test_it(leyden_server):
            with socket.create_server(("127.0.0.1", 0)) as silent:
                box, url = leyden_server.sandbox, f"http://127.0.0.1:{silent.getsockname()[1]}/x"
                box.charges.create(amount="1000", description="", callbackUrl=url, expiresIn=1)
                box.run("2s")
                [delivery] = box.ask("GET", "/sandbox/v1/deliveries")["data"]
                assert delivery["attempts"][0]["note"] == "no complete answer within 100 ms"
    """)
    suite.makeini(CONFIG + "leyden_callback_timeout = 100ms\n")
    suite.runpytest_inprocess().assert_outcomes(passed=1)
    suite.makeini(CONFIG + "leyden_callback_timeout = 0.1\n")
    suite.runpytest_inprocess().assert_outcomes(passed=1)


WRONG = {
    "leyden_url": [("127.0.0.1:8402", "'127.0.0.1:8402' is not a base URL: give one such as http://127.0.0.1:8402")],
    "leyden_seed": [("lucky", "'lucky' is not a seed: give a whole number"), ("-1", "'-1' is not a seed")],
    "leyden_start": [("soon", "'soon' is not a date-time: write ISO 8601"), ("1970-01-01T00:00:00Z", "is not a start")],
    "leyden_egress": [("publik", "'publik' is not an egress mode: choose loopback, public, none")],
    "leyden_egress_allow": [
        ("127.0.0.0/8 300.1.1.1", "'300.1.1.1' does not appear to be an IPv4 or IPv6 network: give a network such as"),
        ('"10.0.0.0/8', "No closing quotation"),
    ],
    "leyden_callback_timeout": [
        ("1ms", "a callback timeout is 100ms to 60s, not '1ms'"),
        ("x", "'x' is not a duration"),
    ],
    "leyden_webhook_secret": [("hush", "that is not a webhook secret: give whsec_")],
    "leyden_overlays": [("strict strickt", "no overlay 'strickt'; there are: "), ("'strict", "No closing quotation")],
    "--leyden-url": [
        ("http://x/\xe9", "'http://x/\xe9' is not a base URL: give one such as http://"),
        ("", "it is empty: give a value, or leave the option out"),
    ],
    "--leyden-admin-token": [
        ("a b", "this cannot be an admin token: give 8 to 200 printable ASCII characters"),
        ("", "it is empty: give a value, or leave the option out"),
    ],
}


def test_the_table_of_wrong_values_has_every_option() -> None:
    assert {*WRONG} == {*pytest_plugin._INI_OPTIONS, *pytest_plugin._OPTIONS}
    source = Path(pytest_plugin.__file__).read_text()
    assert {*re.findall(r'add(?:ini|option)\("([a-z_-]+)"', source)} == {*WRONG}


@pytest.mark.parametrize(
    ("option", "value", "text"), sampled([(option, *row) for option, rows in WRONG.items() for row in rows], 2)
)
def test_a_wrong_value_of_an_option_is_one_line_before_any_test(
    suite: pytest.Pytester, option: str, value: str, text: str
) -> None:
    suite.makepyfile("def test_the_world(sandbox): pass")
    is_ini = not option.startswith("--")
    suite.makeini(CONFIG + (f"{option} = {value}\n" if is_ini else ""))
    outcome = suite.runpytest_inprocess(*(() if is_ini else (option, value)))
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    [line] = [line for line in outcome.errlines if line]
    assert line.startswith(f"ERROR: {option}: ")
    assert text in line


@pytest.mark.parametrize(("name", "value"), [("LEYDEN_URL", "localhost:1"), ("LEYDEN_ADMIN_TOKEN", "a b")])
def test_a_wrong_variable_is_one_line_in_the_tests_that_use_it(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    suite.makepyfile("def test_one(leyden_server): pass\ndef test_two(): pass")
    outcome = suite.runpytest_inprocess(*(("--leyden-url", "http://127.0.0.1:9") if "TOKEN" in name else ()))
    outcome.assert_outcomes(errors=1, passed=1)
    outcome.stdout.fnmatch_lines([f"{name}: *"])
    assert "Traceback" not in outcome.stdout.str()


@pytest.mark.parametrize(
    ("value", "text"),
    [("missing.yaml", "missing.yaml: cannot read this overlay"), ("strict strict", "overlay strict, action * selects")],
)
def test_overlays_that_cannot_be_applied_are_one_line(suite: pytest.Pytester, value: str, text: str) -> None:
    suite.makepyfile("def test_the_world(sandbox): pass")
    suite.makeini(f"{CONFIG}leyden_overlays = {value}\n")
    outcome = suite.runpytest_inprocess()
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines([f"leyden_overlays = {value}: {text}*"])
    assert "pytest_plugin.py" not in outcome.stdout.str()


def test_a_suite_that_uses_none_of_it_loads_none_of_it(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import sys

        def test_nothing_was_imported():
            heavy = ("server", "leyden.world.world", "leyden.sandbox", "pandas", "numpy", "starlette", "uvicorn")
            assert not [name for name in heavy if name in sys.modules]
    """)
    suite.runpytest_subprocess().assert_outcomes(passed=1)


def test_it_can_be_disabled(suite: pytest.Pytester) -> None:
    suite.makepyfile("def test_the_world(sandbox): pass")
    outcome = suite.runpytest_inprocess("-p", "no:leyden")
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines(["*fixture 'sandbox' not found*"])


def test_the_fixture_serves_here_too(leyden_server: LiveServer) -> None:
    charge = create(leyden_server, "tea")
    assert [one.id for one in leyden_server.sandbox.charges] == [charge["id"]]


def test_the_fixture_is_new_for_each_test(leyden_server: LiveServer) -> None:
    assert len(leyden_server.sandbox.charges) == 0


def test_the_plugin_is_found_by_its_entry_point() -> None:
    root = Path(__file__).parents[2]
    assert '[project.entry-points.pytest11]\nleyden = "leyden.pytest_plugin"' in (root / "pyproject.toml").read_text()
    command = [sys.executable, "-c", "import leyden.pytest_plugin, sys; print('leyden.sandbox' in sys.modules)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_sandbox_of_the_server_is_served(suite: pytest.Pytester) -> None:
    """It cannot go back in time, it has one URL, and its forks are independent of the server."""
    suite.makepyfile("""
        import json
        from urllib.request import Request, urlopen
        import pytest
        from leyden.errors import ForkError

        def ask(server, path):
            with urlopen(Request(server + path, headers={"apikey": server.api_key}), timeout=10) as answer:
                return json.load(answer)

        def test_it(leyden_server):
            box = leyden_server.sandbox
            before = box.snapshot()
            box.advance("1h")
            with pytest.raises(ForkError, match="from_snapshot"):
                box.restore(before)
            assert box.serve() == leyden_server
            fork = box.fork()
            fork.charges.create(amount="1000", description="tea")
            fork.advance("1h")
            fork.restore(before)
            assert ask(leyden_server, "/sandbox/v1/clock")["now"] == box.now == "2030-01-01T01:00:00.000Z"
            assert ask(leyden_server, "/v0/charges")["data"] == []
    """)
    suite.runpytest_inprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize("fixture", ["sandbox", "leyden_server"])
def test_a_move_of_a_former_test_posts_nothing_to_the_next_one(suite: pytest.Pytester, fixture: str) -> None:
    suite.makeini(f"{CONFIG}leyden_egress = loopback\n")
    suite.makepyfile(
        """
        import threading, time
        from concurrent.futures import ThreadPoolExecutor
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        from leyden.errors import ClosedError

        posts, arrived, answer = [], threading.Event(), threading.Event()

        class Slow(BaseHTTPRequestHandler):
            def do_POST(self):
                posts.append(self.path)
                arrived.set()
                answer.wait(10)

            def log_message(self, *args):
                pass

        receiver = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
        receiver.daemon_threads = True
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        pool, runs = ThreadPoolExecutor(), []

        def test_starts_a_run(FIXTURE):
            box = getattr(FIXTURE, "sandbox", FIXTURE)
            for number in range(3):
                url = f"http://127.0.0.1:{receiver.server_port}/{number}"
                box.charges.create(amount="1000", description="tea", callbackUrl=url, expiresIn=60 * (number + 1))
            runs.append(pool.submit(box.run))
            assert arrived.wait(10)

        def test_gets_nothing_of_it(FIXTURE):
            assert isinstance(runs[0].exception(10), ClosedError)
            answer.set()
            time.sleep(0.3)
            assert posts == ["/0"]
            receiver.shutdown()
            receiver.server_close()
    """.replace("FIXTURE", fixture)
    )
    suite.runpytest_inprocess().assert_outcomes(passed=2)


def test_a_closed_sandbox_is_answered_with_a_problem(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import json, threading, time
        from concurrent.futures import ThreadPoolExecutor
        from http.server import BaseHTTPRequestHandler, HTTPServer
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen
        import pytest

        def refusal(server, path, body=None, key="leyden"):
            headers = {"apikey": key, "content-type": "application/json"}
            with pytest.raises(HTTPError) as refused:
                urlopen(Request(server + path, body and json.dumps(body).encode(), headers), timeout=10)
            document = json.load(refused.value)
            return refused.value.code, refused.value.headers["content-type"], document["code"]

        CLOSED = (503, "application/problem+json", "sandbox_closed")

        def test_closed(leyden_server):
            leyden_server.sandbox.close()
            for path in ("/v0/charges", "/sandbox/v1", "/console", "/lnurlp/x", "/nowhere"):
                assert refusal(leyden_server, path) == CLOSED
            assert refusal(leyden_server, "/sandbox/v1/clock/advance", {"by": 1}) == CLOSED

        def test_closed_while_a_request_waits(leyden_server):
            asked, answer = threading.Event(), threading.Event()

            class Slow(BaseHTTPRequestHandler):
                def do_POST(self):
                    asked.set()
                    answer.wait(10)

                def log_message(self, *args):
                    pass

            receiver = HTTPServer(("127.0.0.1", 0), Slow)
            threading.Thread(target=receiver.serve_forever, daemon=True).start()
            box = leyden_server.sandbox
            url = f"http://127.0.0.1:{receiver.server_port}/"
            box.charges.create(amount="1000", description="tea", callbackUrl=url, expiresIn=1)
            with ThreadPoolExecutor() as pool:
                advance = pool.submit(refusal, leyden_server, "/sandbox/v1/clock/advance", {"by": 5})
                assert asked.wait(10)
                box.close()
                answer.set()
                assert advance.result() == CLOSED
            receiver.shutdown()
            receiver.server_close()

        def test_between_two_tests():
            pass

        def test_the_next(leyden_server):
            request = Request(leyden_server + "/v0/charges", headers={"apikey": "leyden"})
            assert urlopen(request, timeout=10).status == 200
    """)
    result = suite.runpytest_inprocess()
    result.assert_outcomes(passed=4)
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
