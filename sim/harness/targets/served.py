"""Targets over HTTP: a served Leyden, and another implementation with an adapter."""

from __future__ import annotations

import argparse
import re
import ssl
from collections.abc import Mapping, Sequence
from functools import partial
from socket import socket
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx2

from leyden.api_client.deadline import Deadline
from leyden.api_client.response_bodies import MAX_RESPONSE_BYTES, TooLong
from leyden.api_client.served_document import differences_of_requests
from leyden.devserver.argument_types import base_url
from leyden.devserver.secret_texts import Secrets
from leyden.errors import key_refusal
from leyden.files.json_files import InputError
from leyden.harness.constants import API_KEY, NO_KEY
from leyden.harness.model.rules import iso
from leyden.harness.targets.adapter import NO_ADAPTER, TargetError, adapter_call, hold_limit_of, load_adapter
from leyden.harness.targets.control_answers import control_answer
from leyden.harness.targets.target import EXTERNAL, PROJECT, RESTARTS, SECOND_PROJECT, SERVED, Headers, Response
from leyden.server.errors import with_causes
from leyden.server.printable import printable
from leyden.server.system.clock import random_seed
from leyden.server.system.http_client.certificates import is_of_unknown_issuer, issuer_mend
from leyden.world.config import packaged_contract

RESPONSE_S = 60  # for a whole response, in real time
_NAMED = 3  # differences of a document that an error names


class HttpTarget:
    """A target over HTTP, by its base URL. `second_api_key` is that of another project, if there is one.

    `adapter_name` is the name that its adapter was loaded by, if there is one. Raises `InputError` for equal keys.
    """

    adapter_name = ""
    shared = False
    restarts = False
    network = True

    def __init__(self, url: str, key: str = API_KEY, second_api_key: str = NO_KEY) -> None:
        if key == second_api_key:
            raise InputError("the second API key is the first one: give the key of another project, or leave it out")
        self.name = self.base_url = public_url(url)
        self.url = url.rstrip("/")
        self.secrets = Secrets((key, second_api_key), urls=(url,), public=(API_KEY, NO_KEY))
        self.keys: Mapping[str, str] = {PROJECT: key, SECOND_PROJECT: second_api_key}
        self._client: httpx2.Client | None = None
        self._connected: list[socket] = []
        self._certificates: ssl.SSLContext | None = None
        self._keys_are_accepted = False

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> Response:
        """Send a request over HTTP. Raises `TargetError` if there is no response."""
        if self._client is None:
            # They are read once, and only for HTTPS: it takes ten times as long as a request, and every run connects
            # anew.
            if self._certificates is None and self.url.lower().startswith("https:"):
                self._certificates = self._trusted()
            self._client = httpx2.Client(timeout=30, trust_env=False, verify=self._certificates or False)
        deadline = Deadline(RESPONSE_S)
        for connected in self._connected:
            deadline.watch(connected)
        more = {"trace": partial(self._watch, deadline)}
        error: httpx2.HTTPError | None = None
        try:
            url, encoded = self.url + target, _encoded(headers)
            with self._client.stream(method, url, headers=encoded, content=body, extensions=more) as response:
                content = self._body(response, target)
        except httpx2.HTTPError as found:
            error = found
        finally:
            deadline.cancel()
        if deadline.is_over:
            self.end()
            raise self._error(f"{self.base_url}{target} does not end its response within {RESPONSE_S} seconds")
        if error is not None:
            raise self._error(f"{self.base_url}{target} does not respond ({_of_bytes(error)}): {_mend_of(error)}")
        self.secrets.learn(content)
        names_and_values = {name.lower(): value for name, value in response.headers.items()}
        return Response(response.status_code, names_and_values, content)

    def _trusted(self) -> ssl.SSLContext:
        """The issuers of certificates: those of the file that the environment names, else the system's."""
        try:
            return httpx2.create_ssl_context()
        except OSError:  # a file that cannot be read
            raise self._error(f"{self.base_url}: {issuer_mend()}") from None

    def _body(self, response: httpx2.Response, target: str) -> bytes:
        """The body of a response. Raises `TargetError` for one that is too long."""
        found = bytearray()
        for part in response.iter_bytes():
            found += part
            if len(found) > MAX_RESPONSE_BYTES:
                raise self._error(f"{self.base_url}{target}: {TooLong(MAX_RESPONSE_BYTES)}")
        return bytes(found)

    def _watch(self, deadline: Deadline, step: str, found: Mapping[str, Any]) -> None:
        """A step of a request: a new connection is ended when the time of the request is over. A timeout of httpx2
        limits the wait for each part only."""
        if step in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            connected = found["return_value"].get_extra_info("socket")
            self._connected = [connected] if "tcp" in step else [*self._connected, connected]
            deadline.watch(connected)

    def check_keys(self) -> None:
        """Raise `TargetError` if the service does not accept an API key that was given; it is asked once."""
        if self._keys_are_accepted:
            return
        options = {PROJECT: "--api-key", SECOND_PROJECT: "--second-api-key"}
        for project, key in self.keys.items():
            if key != NO_KEY:
                response = self.send("GET", "/v0/wallet", [("apikey", key)], b"")
                if response.status == 401:
                    raise self._error(key_refusal(self.name, response.json, options[project]))
        self._keys_are_accepted = True

    def without_secrets(self, text: str) -> str:
        """The text without the secrets of this target."""
        return self.secrets.text(text)

    def _error(self, text: str) -> TargetError:
        return TargetError(self.without_secrets(text))

    def restart(self, how: str = RESTARTS[0]) -> Sequence[str]:
        """Not possible. Raises `TargetError`."""
        raise TargetError(f"{self.name} cannot be restarted from here: use a sandbox in process")

    def end(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client, self._connected = None, []


def _mend_of(error: BaseException) -> str:
    """What to do about a request without a response. httpx2 wraps the error of the connection in its own."""
    return issuer_mend() if any(map(is_of_unknown_issuer, with_causes(error))) else "check that it runs"


def _of_bytes(error: Exception) -> str:
    """The text of an error without the bytes that it quotes, of a server that does not speak HTTP."""
    return re.sub(r":? *(?:bytearray\()?\bb['\"].*", "", str(error), flags=re.DOTALL)


def _encoded(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]


class ServedLeyden(HttpTarget):
    """A `leyden serve` with its control plane and a paused clock (`--rate 0`).

    Each run resets the sandbox of `key`, a project's API key, so its data is lost.
    """

    kind = SERVED
    controlled = True
    _document_is_checked = False

    def begin(self, seed: int, start_ms: int, overlays: Sequence[str], *, disk: bool = False) -> None:
        """Reset the sandbox. Raises `TargetError`, before the reset, if this is no served Leyden, or its document, its
        keys, its overlays, its clock or its payments are not as required."""
        self._check_document()
        self.check_keys()
        headers = [("apikey", self.keys[PROJECT]), ("Content-Type", "application/json")]
        state = self._state("GET", "/sandbox/v1", headers, b"")
        if sorted(state["overlays"]) != sorted(overlays):
            needed, actual = ", ".join(overlays) or "none", ", ".join(state["overlays"]) or "none"
            raise TargetError(
                f"{self.name} is served with the overlays {actual}, this run needs {needed}: serve it with these"
                " (`leyden serve --overlay NAME`), or run with those (`leyden fuzz --overlay NAME`; a case has its own)"
            )
        if state["rate"]:
            raise TargetError(f"the clock of {self.name} is not paused: use `leyden serve --rate 0`")
        if state["network"]:
            raise TargetError(
                f"payments to {self.name} go over a simulated network, so they take time and may find no route: these"
                " runs need direct payments, so serve it without a network"
            )
        body = f'{{"seed":{seed},"start":"{iso(start_ms)}"}}'.encode()
        self.base_url = self._state("POST", "/sandbox/v1/reset", headers, body)["publicUrl"]

    def _check_document(self) -> None:
        """Raise `TargetError` if the requests of the cases are not those of the document that is served; it is read
        once."""
        if self._document_is_checked:
            return
        missing = differences_of_requests(self.specification(()), packaged_contract("charges").document)
        if missing:
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            raise TargetError(
                f"{self.name} serves another document, which cannot be tested over HTTP: {'; '.join(missing[:_NAMED])}"
                f"{more}; serve the packaged document, with overlays if need be"
            )
        self._document_is_checked = True

    def _state(self, method: str, path: str, headers: Headers, body: bytes) -> dict[str, Any]:
        """The state of the sandbox that a request to the control plane answers with."""
        state: dict[str, Any] = control_answer(self.name, method, path, self.send(method, path, headers, body))
        return state

    def specification(self, overlays: Sequence[str]) -> Mapping[str, Any]:
        """The document that it serves."""
        response = self.send("GET", "/openapi.json", [], b"")
        self.end()
        document = response.json
        if response.status != 200 or not isinstance(document, dict) or not isinstance(document.get("paths"), dict):
            raise TargetError(
                f"{self.name} does not answer GET /openapi.json with its document ({response.status}): give the URL"
                " of a served Leyden"
            )
        return document

    def journal_hash(self) -> str | None:
        """The hash of the journal, read from the control plane."""
        return str(self._state("GET", "/sandbox/v1", [("apikey", self.keys[PROJECT])], b"")["journalHash"])


class ExternalService(HttpTarget):
    """Another implementation, by its base URL. The report lists what is not checked because it cannot be controlled.

    `adapter` is an object with any of the methods of `Adapter`.
    """

    kind = EXTERNAL
    controlled = False

    def __init__(
        self,
        url: str,
        key: str,
        second_api_key: str = NO_KEY,
        *,
        adapter: object | None = None,
        adapter_name: str = "",
    ) -> None:
        super().__init__(url, key, second_api_key)
        self.adapter = adapter
        self.adapter_name = adapter_name
        self._is_known = False
        self.restarts = adapter_call(adapter, "restart") is not None
        self._now = adapter_call(adapter, "now")
        self.hold_limit_s = hold_limit_of(adapter)
        self._nonce = f"{random_seed():x}"
        self._runs = 0

    def nonce(self) -> str:
        """A text that no run has used before, for Idempotency-Keys."""
        self._runs += 1
        return f"-{self._nonce}-{self._runs}"

    def begin(self, seed: int, start_ms: int, overlays: Sequence[str], *, disk: bool = False) -> None:
        """Check with a harmless read that this is a charge service; it keeps its state. Raises `TargetError` if it is
        none, or refuses the API key. Nothing was written then."""
        if self._is_known:
            return
        answers = []
        for path in ("/v0/wallet", "/v0/charges?limit=1"):
            response = self.send("GET", path, [("apikey", self.keys[PROJECT])], b"")
            answers.append(f"GET {path} with {response.status}")
            if response.status == 200 and isinstance(response.json, dict) and "data" in response.json:
                self._is_known = True
                self.check_keys()
                return
        self.end()
        if all(answer.endswith(("401", "403")) for answer in answers):
            raise self._error(key_refusal(self.name, response.json, "--api-key"))
        raise TargetError(
            f"{self.name} is no charge service: it answers {' and '.join(answers)}, and not with 200 and `data`;"
            " nothing was written: check the URL"
        )

    @property
    def tells_time(self) -> bool:
        """Whether the adapter has `now()`."""
        return self._now is not None

    @property
    def now_ms(self) -> int | None:
        """The time of the service by the adapter; None if it has no `now()`."""
        if self._now is None:
            return None
        seconds: float = self._now()
        return round(seconds * 1_000)

    def restart(self, how: str = RESTARTS[0]) -> Sequence[str]:
        """Restart the service with the adapter, in its way."""
        restart = adapter_call(self.adapter, "restart")
        if restart is None:
            return super().restart(how)
        restart()
        return ()

    def specification(self, overlays: Sequence[str]) -> None:
        """None: it may serve no document."""

    def journal_hash(self) -> str | None:
        """None: there is no journal."""
        return None


def public_url(url: str) -> str:
    """A base URL without what may be secret: the user, the query and the fragment. Raises `InputError` for what is no
    base URL, without these parts of it."""
    scheme, mark, rest = re.split("[?#]", url, maxsplit=1)[0].partition("://")
    authority, slash, path = rest.partition("/")
    user, _, host = authority.rpartition("@")
    try:
        base_url(f"{scheme.lower()}{mark}{host}{slash}{path}")
    except argparse.ArgumentTypeError as error:
        raise InputError(printable(str(error))) from None
    if not (user.isascii() and user.isprintable() and " " not in user):
        raise InputError("the user in the URL has characters that no URL has: encode them, such as %20 for a space")
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def target_at(
    kind: str, url: str, *, api_key: str = "", second_api_key: str = "", adapter: str = ""
) -> ServedLeyden | ExternalService:
    """The target at a URL: another implementation if `kind` is that or `adapter` names one, else a served Leyden.

    `adapter` is loaded by `load_adapter`. Raises `InputError` if that cannot be done.
    """
    keys = (url, api_key or API_KEY, second_api_key or NO_KEY)
    if adapter or kind == EXTERNAL:
        name = adapter or NO_ADAPTER
        return ExternalService(*keys, adapter=load_adapter(name), adapter_name=name)
    return ServedLeyden(*keys)
