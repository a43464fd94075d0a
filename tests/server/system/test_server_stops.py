"""The stop of the server: it ends whatever its clients do, with status 0, and without a traceback in the log."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from leyden import Sandbox
from leyden.server.system.http_server import listening
from leyden.server.system.http_server.connection import ConnectedH11Protocol
from leyden.server.system.stop_signals import STOP_SIGNALS
from tests.server.system.test_http_limits import BODY, CREATE, GET, KEY, dial_url, process, response
from tests.support.deep import deep_except, sampled
from tests.support.forked import forked_leyden
from tests.support.served import ROOT, Client, run_command

# Longer than all bounds of a stop together, on a busy machine.
END_S = 60
LIST = b"GET /v0/charges?limit=100 HTTP/1.1\r\nhost: localhost\r\n" + KEY + b"\r\n"
SPEC = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
EVENTS = b"GET /sandbox/v1/events HTTP/1.1\r\nhost: localhost\r\n" + KEY + b"\r\n"
UPGRADE = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)

CLIENTS = {
    "one request, and nothing is read": SPEC,
    "20 pipelined requests": SPEC * 20,
    "1,000 pipelined requests": SPEC * 1_000,
    "1,000 pipelined requests for a list": LIST * 1_000,
    "20 requests, then half a head": SPEC * 20 + GET,
    "20 requests, then no HTTP": SPEC * 20 + TLS_HELLO,
    "half a body": CREATE + KEY + b"content-length: 50\r\n\r\n" + BODY[:9],
    "an event stream": EVENTS,
    "an upgrade to WebSocket": GET + KEY + UPGRADE,
    "TLS": TLS_HELLO,
}


def unread(url: str, sent: bytes) -> socket.socket:
    """A connection of a client that has sent these bytes, as far as they are accepted, and reads nothing."""
    host, _, port = url.removeprefix("http://").partition(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
    connection.settimeout(0.3)
    connection.connect((host, int(port)))
    with suppress(TimeoutError):
        connection.sendall(sent)
    return connection


@pytest.fixture(params=["httptools", "h11"])
def served(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Sandbox, str, threading.Thread]]:
    """A served sandbox whose stop waits a short time for requests in progress, and the thread of its server."""
    others = set(threading.enumerate())
    monkeypatch.setattr(listening, "_GRACE_S", 0.2)
    if request.param == "h11":
        monkeypatch.setattr(listening, "_protocol", lambda: ConnectedH11Protocol)
    sandbox = Sandbox(seed=7, start="2030-01-01T00:00Z")
    for _ in range(100):
        sandbox.charges.create(amount="1000", description="tea")
    url = sandbox.serve()
    [thread] = [one for one in threading.enumerate() if one.name == "leyden-server" and one not in others]
    yield sandbox, url, thread
    sandbox.close()


@pytest.mark.parametrize("half_closed", [False, True], ids=["open", "half-closed"])
@pytest.mark.parametrize("sent", sampled(CLIENTS.values(), 4), ids=CLIENTS.keys())
def test_the_server_stops_whatever_a_client_does(
    served: tuple[Sandbox, str, threading.Thread], sent: bytes, half_closed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    sandbox, url, thread = served
    with ExitStack() as opened:
        connection = opened.enter_context(unread(url, sent))
        if half_closed:
            connection.shutdown(socket.SHUT_WR)
        assert Client(url)("GET", "/v0/charges")[0] == 200  # it was accepted before
        sandbox.close()
        thread.join(END_S)
        assert not thread.is_alive()
    printed = capsys.readouterr().err
    assert ("Traceback" in printed, "ERROR" in printed) == (False, False), printed


@pytest.mark.parametrize("number", deep_except([*STOP_SIGNALS], signal.SIGTERM))
def test_a_signal_ends_the_process_while_clients_read_nothing(number: signal.Signals, tmp_path: Path) -> None:
    data, printed = str(tmp_path / "data"), tmp_path / "stderr"
    with ExitStack() as opened, process("--data", data, log=str(printed)) as (served, url):
        charge = Client(url).ok("POST", "/v0/charges", {"amount": "1000", "description": "tea"})["data"]
        for sent in CLIENTS.values():
            opened.enter_context(unread(url, sent))
        served.send_signal(number)
        assert served.wait(END_S) == 0
    assert "Traceback" not in printed.read_text()
    assert "ERROR" not in printed.read_text()
    with process("--data", data) as (_, url):
        assert [row["id"] for row in Client(url).ok("GET", "/v0/charges")["data"]] == [charge["id"]]


def test_a_second_signal_ends_the_time_of_the_requests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(listening, "_GRACE_S", 10.0 * END_S)
    started = threading.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if scope["type"] == "lifespan":
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        started.set()
        await asyncio.Event().wait()

    server = listening.ServerThread(app, listening.open_listener("127.0.0.1", 0))
    with dial_url(server.url) as connection:
        connection.sendall(SPEC)
        assert started.wait(END_S)
        for _ in range(2):
            server._server.handle_exit(signal.SIGTERM, None)
        status, problem = response(connection)
        assert (status, problem["code"]) == (503, "server_stopping")
        server.close()
        assert not server._thread.is_alive()
    [line] = capsys.readouterr().err.splitlines()
    assert "1 request: no complete response before the second signal to stop" in line


def test_long_requests_that_come_too_late_for_a_stop_are_not_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds the event loop: all of them, one after another, would take much longer than a stop may."""
    monkeypatch.setattr(listening, "_GRACE_S", 0.2)
    monkeypatch.setattr(listening, "_LATEST_S", 0.0)
    handled = list[int]()
    received = threading.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        if scope["type"] == "lifespan":
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        handled.append(len(message))
        if len(handled) == 1:
            received.wait(END_S)
            server._server.handle_exit(signal.SIGTERM, None)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    server = listening.ServerThread(app, listening.open_listener("127.0.0.1", 0))
    with ExitStack() as opened:
        connections = [opened.enter_context(dial_url(server.url)) for _ in range(8)]
        for connection in connections:
            connection.sendall(SPEC)
        received.set()
        server.close()
        assert not server._thread.is_alive()
        heads = [connection.recv(65_536).partition(b"\r\n")[0] for connection in connections]
    assert 1 <= len(handled) < 8
    assert sum(b" 200 " in head for head in heads) == len(handled)
    assert all(b" 200 " in head or b" 503 " in head or not head for head in heads)


def test_a_thread_that_works_does_not_disturb_the_end_of_the_process() -> None:
    """Native code of a thread that the interpreter ends may end the process by an error of its own."""
    program = (
        "import atexit, sys, threading, time\n"
        "from leyden.__main__ import main\n"
        "from leyden.server.system import work_threads\n"
        "threading.Thread(target=time.sleep, args=(60,), name=work_threads._NAME, daemon=True).start()\n"
        "assert work_threads.is_working()\n"
        "atexit.register(print, 'finalization')\n"
        "sys.argv = ['leyden', 'version']\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("leyden ")
    assert "finalization" not in done.stdout


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_as_soon_as_the_port_is_open_ends_with_status_0(number: signal.Signals, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "leyden", "serve", "--port", str(port), "--data", str(tmp_path / "data")]
    starting = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        while starting.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                continue
        starting.send_signal(number)
        _, printed = starting.communicate(timeout=END_S)
    finally:
        starting.kill()
        starting.communicate()
    assert (starting.returncode, "Traceback" in printed) == (0, False), printed


def test_an_interrupt_during_the_imports_is_quiet() -> None:
    program = """
import signal, sys
from importlib.abc import MetaPathFinder

class Interrupt(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from leyden.__main__ import main
sys.exit(main(["serve", "--port", "0"]))
"""
    for module in ("leyden.commands.catalogue", "leyden.devserver.serve_options", "leyden.devserver.serve", "uvicorn"):
        done = subprocess.run(
            [sys.executable, "-c", program, module],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=END_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), module


def test_the_signals_to_stop_get_their_handlers_once_before_a_server_starts(tmp_path: Path) -> None:
    program = """
import sys
from leyden.server.system import stop_signals
from leyden.__main__ import main

set_handlers, calls = stop_signals.interrupt_on_stop_signals, []
stop_signals.interrupt_on_stop_signals = lambda: (calls.append(1), set_handlers())
status = main(["serve", "--port", "0", "--data", sys.argv[1]])
print(status, len(calls), "leyden.devserver.serve" in sys.modules)
"""
    (tmp_path / "no-directory").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "no-directory")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )
    assert done.stdout.split() == ["2", "1", "True"], done.stderr


@pytest.mark.parametrize(("number", "status"), [(2, 0), (15, 0), (None, 2)])
def test_an_error_that_a_library_made_of_a_signal_says_nothing_of_the_directory(
    number: int | None, status: int, tmp_path: Path
) -> None:
    """As jsonschema_rs does: what the handler raises within its code becomes a `ValueError`, and that an error of the
    directory."""
    first = f"""
import os, time
from leyden.server.errors import StoreError
from leyden.world.world import World

def saved(store):
    try:
        number = {number}
        if number is not None:
            os.kill(os.getpid(), number)
            time.sleep(1)
    except KeyboardInterrupt:
        pass
    raise StoreError("its rows do not fit together")

World.saved = staticmethod(saved)
"""
    process = forked_leyden("serve", "--port", "0", "--data", str(tmp_path / "data"), first=first)
    _, printed = process.communicate(timeout=20)
    assert (process.wait(), "its rows" in printed) == (status, status == 2), printed
    assert status == 2 or printed == ""


def test_a_process_that_ends_frees_no_sandbox() -> None:
    """Python takes a millisecond for each, and a server may have thousands."""
    first = """
import sys
from leyden.world.world import World
World.__del__ = lambda world: print("freed", file=sys.stderr)
"""
    process = forked_leyden("serve", "--port", "0", first=first)
    assert process.stdout is not None
    client = Client(process.stdout.readline().split()[-1])
    for _ in range(3):
        client.ok("POST", "/sandbox/v1/sandboxes", {})
    process.terminate()
    _, printed = process.communicate(timeout=20)
    assert (process.wait(), "freed" in printed) == (0, False)


def test_an_empty_path_for_the_data_is_refused() -> None:
    done = run_command("serve", "--port", "0", "--data", "")
    assert (done.returncode, done.stderr) == (
        2,
        "leyden serve: argument --data: the value is empty: give one, or leave the option out\n",
    )


def test_a_signal_while_the_server_is_imported_ends_with_status_0_in_silence(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Interrupt(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), int(sys.argv[2]))

sys.meta_path.insert(0, Interrupt())
from leyden.__main__ import main
sys.exit(main(["serve", "--port", "0", "--data", sys.argv[3]]))
"""
    modules = (
        "leyden.commands.catalogue",
        "leyden.devserver.serve_options",
        "jsonschema_rs",
        "jsonschema_rs.jsonschema_rs",
    )
    for module in modules:
        for number in STOP_SIGNALS:
            done = subprocess.run(
                [sys.executable, "-c", program, module, str(int(number)), str(tmp_path / "data")],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=END_S,
                check=False,
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), (module, number)


def test_the_waits_of_a_stop_leave_time_for_a_busy_machine_within_five_seconds() -> None:
    assert listening._GRACE_S + 2 * listening._FLUSH_S <= 3.5


def test_an_advance_that_waits_for_a_hanging_receiver_ends_with_the_server() -> None:
    with ExitStack() as opened, process("--rate", "0") as (served, url):
        receiver = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        callback = f"http://127.0.0.1:{receiver.getsockname()[1]}/hook"
        client, answers = Client(url), []
        client.ok(
            "POST", "/v0/charges", {"amount": "1000", "description": "tea", "expiresIn": 60, "callbackUrl": callback}
        )
        moving = threading.Thread(
            target=lambda: answers.append(client("POST", "/sandbox/v1/clock/advance", {"by": "1h"})[0])
        )
        moving.start()
        opened.enter_context(receiver.accept()[0])  # it never answers
        served.send_signal(signal.SIGTERM)
        assert served.wait(END_S) == 0
        moving.join(END_S)
        assert answers == [503]
