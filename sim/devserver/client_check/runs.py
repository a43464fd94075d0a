"""One run of the user's command: its process, the requests that it sent, and the sandbox that it used."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leyden.devserver.secret_texts import Secrets
from leyden.files.json_files import InputError
from leyden.server.system.clock import stopwatch, system_time_ms
from leyden.service_faults.connection import connection_of
from leyden.service_faults.responses import HEADER as FAULT_HEADER
from leyden.world.world import World

URL_VARIABLE, KEY_VARIABLE, CASE_VARIABLE = "LEYDEN_URL", "LEYDEN_API_KEY", "LEYDEN_CASE"
CHARGES = "/v0/charges"

KEY_SHOWN_AS = "(the API key)"
_OUTPUT_CHARS = 200_000
_KEPT_BYTES = 64 * 1024  # of the body of a request; the service takes no longer one
_OUTPUT_S = 1.0  # for the rest of the output of a command that was ended
_KEY_PART = 16  # characters of the key in a row that nobody should see


@dataclass(slots=True, eq=False)
class SentRequest:
    """A request of the client: the real time of its arrival, its `Idempotency-Key` if it has one, and its body.

    `body` is None if it did not arrive whole. `status` is None until the response begins; it `is_complete` when the
    whole body was sent, from `answered_at_ms` on. `is_faulty` is a response whose headers say that a fault changed it.
    A client that `has_left` closed the connection before the end of the response.
    """

    at_ms: int
    method: str
    path: str
    idempotency_key: str | None
    status: int | None = None
    is_complete: bool = False
    answered_at_ms: int | None = None
    is_faulty: bool = False
    body: bytes | None = None
    has_left: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the client got the whole of a response of success."""
        return self.is_complete and self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Run:
    """The run of a command. `exit_status` is None if it was ended because it took too long.

    Neither the output nor the requests have the API key. `hits` counts the responses that the faults of the case
    changed. `uses_charge` says that a request or the output has the id of a Charge, so that the command read a body.
    """

    exit_status: int | None
    elapsed_s: float
    output: str
    requests: Sequence[SentRequest]
    charges: int
    hits: int
    key: str
    shows_key: bool
    uses_charge: bool

    @property
    def creations(self) -> list[SentRequest]:
        """The requests that create a Charge."""
        return [request for request in self.requests if request.method == "POST" and request.path == CHARGES]

    @property
    def failed_creation(self) -> SentRequest | None:
        """The first request for a Charge that a fault kept from its plain response."""
        return next((one for one in self.creations if one.is_faulty or not one.succeeded), None)

    def attempts(self, wanted: int) -> list[SentRequest]:
        """The failed creation and its repetitions: the later requests with its key.

        Without one, requests with no key or another one are repetitions if there are more requests than the `wanted`
        Charges need: those with the same body, or else all.
        """
        failed = self.failed_creation
        if failed is None:
            return []
        later = self.creations[self.creations.index(failed) + 1 :]
        key = failed.idempotency_key
        same = [one for one in later if key is not None and one.idempotency_key == key]
        if not same and len(self.creations) > max(wanted, 1):
            same = [one for one in later if one.body == failed.body] or later
        return [failed, *same]

    def repetition(self, wanted: int) -> SentRequest | None:
        """The request that repeats the failed creation."""
        return next(iter(self.attempts(wanted)[1:]), None)

    @property
    def reads_after_failure(self) -> list[SentRequest]:
        """The reads of Charges after the failed creation that got the whole of a response of success."""
        failed = self.failed_creation
        later = self.requests if failed is None else self.requests[self.requests.index(failed) + 1 :]
        return [one for one in later if one.method == "GET" and one.path.startswith(CHARGES) and one.succeeded]

    def is_informed(self, wanted: int) -> bool:
        """Whether responses told the client that `wanted` Charges exist: those that created them, or a later read."""
        return sum(request.succeeded for request in self.creations) >= wanted or bool(self.reads_after_failure)

    def by_target(self) -> dict[tuple[str, str], list[SentRequest]]:
        """The requests, for each method and path."""
        targets: dict[tuple[str, str], list[SentRequest]] = {}
        for request in self.requests:
            targets.setdefault((request.method, request.path), []).append(request)
        return targets


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

            connection, body = connection_of(scope), bytearray()

            async def read() -> Message:
                message = await receive()
                if message["type"] == "http.request" and len(body) <= _KEPT_BYTES:
                    body.extend(message.get("body", b""))
                    if not message.get("more_body") and len(body) <= _KEPT_BYTES:
                        sent.body = bytes(body)
                return message

            async def record(message: Message) -> None:
                if connection.is_closed:
                    sent.has_left = True
                elif message["type"] == "http.response.start":
                    sent.status = message["status"]
                    sent.is_faulty = any(name == FAULT_HEADER for name, _ in message["headers"])
                elif not message.get("more_body"):
                    # Before it is sent: the next request of the client can arrive at once.
                    sent.is_complete, sent.answered_at_ms = True, system_time_ms()
                await send(message)

            return await self.app(scope, read, record)
        return await self.app(scope, receive, send)

    def recorded(self, key: str) -> tuple[SentRequest, ...]:
        """The requests with this API key, as they are: what happens to them later does not change these."""
        return tuple(replace(one) for one in self.requests.get(key, ()))


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
        requests = recorder.recorded(key)
    except subprocess.TimeoutExpired:
        requests = recorder.recorded(key)  # before its connections are closed by this check
        exit_status = process.poll()  # it may have ended, and have left a process that keeps its output open
        _end(process)
        output = _rest_of_output(process)
    except BaseException:
        with process:  # its output is closed
            _end(process)
        raise
    hidden = Secrets([key], show=lambda _: KEY_SHOWN_AS)
    shown = tuple(_without_secrets(one, hidden) for one in requests)
    with world.lock:
        ids = [row["id"] for row in world.service.charges.charges]
        return Run(
            exit_status=exit_status,
            elapsed_s=elapsed(),
            output=hidden.text(output[-_OUTPUT_CHARS:]),
            requests=shown,
            charges=len(ids),
            hits=sum(row["hits"] for row in world.service_faults.rows),
            key=key,
            shows_key=shows_key(output, key),
            uses_charge=any(name in text for name in ids for text in [output, *(one.path for one in requests)]),
        )


def _without_secrets(request: SentRequest, hidden: Secrets) -> SentRequest:
    """The request as reports may show it."""
    key = request.idempotency_key
    return replace(request, path=hidden.text(request.path), idempotency_key=None if key is None else hidden.text(key))


def shows_key(output: str, key: str) -> bool:
    """Whether an output has the key or a long part of it, as it is or in base64."""
    parts = [key[start : start + _KEY_PART] for start in range(max(1, len(key) - _KEY_PART + 1))]
    # Where the key begins within three bytes changes its base64; the characters at its ends depend on its neighbours.
    encoded = [base64.b64encode(b"-" * shift + key.encode())[4:-4].decode() for shift in range(3)]
    return any(part in output for part in [*parts, *encoded])


def _rest_of_output(process: subprocess.Popen[str]) -> str:
    """What an ended command has printed. A process that it left in a session of its own may keep the output open."""
    try:
        output, _ = process.communicate(timeout=_OUTPUT_S)
    except subprocess.TimeoutExpired as left:
        with process:  # its output is closed
            found = left.output or b""
        output = found if isinstance(found, str) else found.decode(errors="replace")
    return output


def _end(process: subprocess.Popen[str]) -> None:
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError):  # all of its processes have ended
        os.killpg(process.pid, signal.SIGKILL)
