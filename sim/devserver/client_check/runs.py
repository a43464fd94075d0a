"""One run of the user's command: its process, the requests that it sent, and the sandbox that it used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Receive, Scope, Send

from leyden.json_files import InputError
from leyden.server.system.clock import stopwatch, system_time_ms
from leyden.world.world import World

URL_VARIABLE, KEY_VARIABLE, CASE_VARIABLE = "LEYDEN_URL", "LEYDEN_API_KEY", "LEYDEN_CASE"

_OUTPUT_CHARS = 200_000


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request of the client: the real time of its arrival, and its `Idempotency-Key` if it has one."""

    at_ms: int
    method: str
    path: str
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """What a command did. `exit_status` is None if it was ended because it took too long."""

    exit_status: int | None
    elapsed_s: float
    output: str
    requests: Sequence[SentRequest]
    charges: int
    hits: int
    key: str

    @property
    def creations(self) -> list[SentRequest]:
        """The requests that create a Charge."""
        return [request for request in self.requests if request.method == "POST"]

    @property
    def shows_key(self) -> bool:
        """Whether the API key is in the output."""
        return self.key in self.output


@dataclass(slots=True)
class RequestRecorder:
    """An ASGI application that notes the requests with each key before another one answers them."""

    app: ASGIApp
    key_header: bytes
    requests: dict[str, list[SentRequest]] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            key = headers.get(self.key_header, b"").decode("latin-1")
            idempotency = headers.get(b"idempotency-key")
            sent = SentRequest(
                at_ms=system_time_ms(),
                method=scope["method"],
                path=scope["path"],
                idempotency_key=None if idempotency is None else idempotency.decode("latin-1"),
            )
            self.requests.setdefault(key, []).append(sent)
        await self.app(scope, receive, send)


def run_command(
    command: Sequence[str], name: str, url: str, key: str, world: World, recorder: RequestRecorder, limit_s: float
) -> Run:
    """Run the command with the URL and the key in its environment, for at most `limit_s` real seconds.

    Raises `InputError` when it cannot be started.
    """
    environment: Mapping[str, str] = {**os.environ, URL_VARIABLE: url, KEY_VARIABLE: key, CASE_VARIABLE: name}
    elapsed = stopwatch()
    try:
        # A group of its own: what the command starts is ended with it.
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise InputError(f"{command[0]}: {error.strerror}; give a program and its arguments") from None
    exit_status: int | None
    try:
        output, _ = process.communicate(timeout=limit_s)
        exit_status = process.returncode
    except subprocess.TimeoutExpired:
        _end(process)
        output, _ = process.communicate()
        exit_status = None
    except BaseException:
        _end(process)
        raise
    with world.lock:
        return Run(
            exit_status=exit_status,
            elapsed_s=elapsed(),
            output=output[-_OUTPUT_CHARS:],
            requests=tuple(recorder.requests.get(key, ())),
            charges=len(world.service.charges.charges),
            hits=sum(row["hits"] for row in world.service_faults.rows),
            key=key,
        )


def _end(process: subprocess.Popen[str]) -> None:
    if sys.platform == "win32":
        process.kill()
        return
    os.killpg(process.pid, signal.SIGKILL)
