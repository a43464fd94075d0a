"""The client of a served sandbox: its options, its requests, and an error of one line for each that fails."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import orjson

from leyden.api_client.deadline import Deadline
from leyden.api_client.key_header import KEY_HEADER, header_asked_for
from leyden.api_client.response_bodies import MAX_RESPONSE_BYTES, TooLong, bounded_body
from leyden.api_client.response_forms import has_form, wrong_response
from leyden.api_client.served_document import DOCUMENT_PATH, JSON, REFUSED, is_of_service, served_request
from leyden.commands.environment import ADMIN_TOKEN, API_KEY, URL, from_environment
from leyden.devserver.argument_types import base_url
from leyden.errors import how_to_start, key_refusal
from leyden.files.json_files import shown
from leyden.files.standard_streams import OutputError
from leyden.server.errors import LeydenError
from leyden.server.printable import printable
from leyden.server.version import VERSION

CLIENT = "cli"  # the value of the header Leyden-Client
_TIMEOUT_S = 60
LONG_TIMEOUT_S = 3_600  # of a request that may move much time
COPY_TIMEOUT_S = 300  # of one that may move many bytes
LONGEST_PAGE = 1_000  # rows of a list
_DOCUMENT_BYTES = 16 * 1024 * 1024
_BODY_REFUSED = frozenset({400, 413, 422})  # the statuses of a body that the service does not take


class RequestFailed(LeydenError):
    """The server cannot be reached, or it refused a request."""


class NotThere(RequestFailed):
    """The resource of the path does not exist."""


class WrongArgument(RequestFailed):
    """The server refused a value that an option gave."""

    exit_status = 2


class NoConnection(RequestFailed):
    """No server answers at the URL."""


def add_connection(
    command: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int], *, admin: bool = False
) -> None:
    """Add the options that name the served sandbox, and `--json`. `run` is what the command does, on the responses of a
    server that may be another program."""

    def run_on_responses(options: argparse.Namespace) -> int:
        options.answered = ""
        try:
            with responses_of(options.url or from_environment(URL)):
                status = run(options)
            sys.stdout.flush()
            return status
        except OutputError as error:
            if not options.answered:
                raise
            raise OutputError(f"{error}; {options.answered} was answered, so it is done") from None

    command.set_defaults(run=run_on_responses)
    command.add_argument("--json", action="store_true", help="print the response of the API, unchanged")
    group = command.add_argument_group("the served sandbox")
    group.add_argument("--url", metavar="URL", help=f"base URL of the server or sandbox (default: {_named(URL)})")
    group.add_argument("--api-key", metavar="KEY", help=f"API key of the sandbox (default: {_named(API_KEY)})")
    if admin:
        group.add_argument(
            "--admin-token",
            metavar="TOKEN",
            help=f"admin token of the server (default: {ADMIN_TOKEN[0]}; on loopback mostly none is needed)",
        )


@contextmanager
def responses_of(url: str) -> Iterator[None]:
    """What reads the responses of a server: `RequestFailed` is raised where one is none of Leyden's, because it is no
    JSON or a field is missing or has another type."""
    try:
        yield
    except MemoryError as error:
        raise RequestFailed(f"a response of {printable(url)} needs more memory than there is: {_SMALLER}") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise not_of_leyden(url, f"no field {error}" if isinstance(error, KeyError) else str(error)) from error


def not_of_leyden(url: str, cause: str) -> RequestFailed:
    """The error for a response that Leyden does not send."""
    return RequestFailed(f"{printable(url)} did not answer as Leyden does ({printable(cause)[:200]}): check the URL")


def _named(variable: tuple[str, str]) -> str:
    return f"{variable[0]}, or {variable[1]}"


class Client:
    """Sends requests to the server that the options of a command name."""

    def __init__(self, options: argparse.Namespace) -> None:
        try:
            self.url = base_url(options.url or from_environment(URL))
        except argparse.ArgumentTypeError as error:
            options.parser.error(f"{'--url' if options.url else URL[0]}: {error}")
        self._arguments = options
        self._options: Collection[str] = options.parser._option_string_actions
        self._key = options.api_key or from_environment(API_KEY)
        self._token = getattr(options, "admin_token", None) or from_environment(ADMIN_TOKEN)
        for name, text in (("the API key", self._key), ("the admin token", self._token)):
            if not (text.isascii() and text.isprintable()):
                options.parser.error(f"{name} has characters that no header can have: check it")

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        what: tuple[str, str] | None = None,
        source: str | None = None,
        timeout_s: float = _TIMEOUT_S,
        max_bytes: int = MAX_RESPONSE_BYTES,
    ) -> bytes:
        """Send a request and return the body of the response. A query parameter that is None is left out.

        `what` is the thing that the path names and the command that lists such things, `source` the file that has the
        body. The request ends after `timeout_s` real seconds, whatever has arrived, and after `max_bytes` of the
        response. Raises `RequestFailed`, also for a success that Leyden does not answer with.
        """
        deadline, response = Deadline(timeout_s), None
        try:
            response = self._open(method, path, body, query=query, headers=headers, deadline=deadline)
            raw = bounded_body(response, max_bytes)
        except NoConnection:
            raise
        except TooLong as error:
            raise not_of_leyden(self.url, str(error)) from None
        except (RequestFailed, OSError, HTTPException) as error:
            if deadline.is_over:
                raise self._too_late(timeout_s) from None
            if isinstance(error, RequestFailed):
                raise
            raise RequestFailed(f"the response of {self.url} is not complete ({_cause(error)}): {_FAULT}") from None
        finally:
            deadline.close()
            if response is not None:
                response.close()
        if deadline.is_over:
            raise self._too_late(timeout_s)
        if response.status >= 300:
            refusal = self._refusal(response, raw, what)
            is_of_body = response.status in _BODY_REFUSED or str(refusal).startswith("the body ")
            if source is not None and is_of_body and not _is_about_query(raw):
                raise WrongArgument(f"{shown(source)}: {refusal}")
            raise refusal
        try:
            wrong = wrong_response(method, path, orjson.loads(raw)) if has_form(method, path) else None
        except orjson.JSONDecodeError as error:
            wrong = str(error)
        if wrong is not None:
            raise not_of_leyden(self.url, wrong)
        if method != "GET":
            self._arguments.answered = f"{method} {path}"
        return raw

    def find(self, path: str) -> bytes | None:
        """The body of the response to a GET; None for the status 404."""
        try:
            return self("GET", path)
        except NotThere:
            return None

    def stream(
        self, path: str, *, query: Mapping[str, object], headers: Mapping[str, str], timeout_s: float
    ) -> HTTPResponse:
        """Send a GET and return its response, whose body is read as it comes: `timeout_s` limits the wait for each
        part. Raises `RequestFailed`."""
        deadline = Deadline(timeout_s)  # of its head
        try:
            response = self._open("GET", path, query=query, headers=headers, deadline=deadline)
            if response.status >= 300:
                raise self._refusal(response, bounded_body(response), None)
            return response
        except TooLong as error:
            raise not_of_leyden(self.url, str(error)) from None
        except (OSError, HTTPException) as error:
            raise RequestFailed(f"the response of {self.url} is not complete ({_cause(error)}): {_FAULT}") from None
        except RequestFailed:
            if deadline.is_over:
                raise self._too_late(timeout_s) from None
            raise
        finally:
            deadline.cancel()

    def _open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: Deadline,
    ) -> HTTPResponse:
        """Send a request and return its response before its body is read. One part of it may take as long as the whole
        may. Raises `RequestFailed`, and `TooLong`."""
        base = urlsplit(self.url)
        given = {name: value for name, value in (query or {}).items() if value is not None}
        # Sandboxes are created and listed below the server's URL, and the URL may be that of a sandbox.
        root = _OF_SANDBOX.sub("", base.path) if path.startswith("/sandbox/v1/sandboxes") else base.path
        target = f"{root}{path}{f'?{urlencode(given)}' if given else ''}"
        sent = {KEY_HEADER: self._key, "accept": "*/*", "user-agent": f"leyden/{VERSION}", "leyden-client": CLIENT}
        if self._token:
            sent["authorization"] = f"Bearer {self._token}"
        if body is not None:
            sent["content-type"] = JSON
        content = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        connection = self._connection(deadline)

        def send(headers: Mapping[str, str]) -> HTTPResponse:
            connection.request(method, target, content, headers)
            if connection.sock is not None:
                deadline.watch(connection.sock)  # of the second request, for which it may be another
            return connection.getresponse()

        try:
            connection.connect()
            deadline.watch(connection.sock)
        except (OSError, UnicodeError) as error:
            raise NoConnection(
                f"no server answers at {self.url} ({_cause(error)}): {how_to_start(self.url)}give its URL with --url or"
                f" {URL[0]}"
            ) from None
        try:
            response = send({**sent, **(headers or {})})
            other = header_asked_for(response.status, response.headers.get("www-authenticate"))
            if other is not None:
                bounded_body(response)
                sent[other] = self._key
                response = send({**sent, **(headers or {})})
            if response.status in REFUSED and is_of_service(path):
                served = served_request(self._document(deadline), method, path)
                if served != (method, path, JSON):
                    bounded_body(response)
                    method, target = served.method, target.replace(path, served.target, 1)
                    sent |= {"content-type": served.media_type} if body is not None else {}
                    response = send({**sent, **(headers or {})})
            return response
        except TimeoutError:
            raise self._too_late(deadline.limit_s) from None
        except (OSError, HTTPException) as error:
            raise RequestFailed(f"{self.url} gave no answer ({_cause(error)}): {_FAULT}") from None

    def _connection(self, deadline: Deadline) -> HTTPConnection:
        """A connection to the server, which is not open yet."""
        base = urlsplit(self.url)
        kind = HTTPSConnection if base.scheme == "https" else HTTPConnection
        return kind(base.hostname or "", base.port, timeout=deadline.limit_s)

    def _document(self, deadline: Deadline) -> Any:
        """The document of the service; None where there is none."""
        connection = self._connection(deadline)
        try:
            connection.connect()
            deadline.watch(connection.sock)
            target = f"{urlsplit(self.url).path}{DOCUMENT_PATH}"
            connection.request("GET", target, headers={"leyden-client": CLIENT})
            return orjson.loads(bounded_body(connection.getresponse(), _DOCUMENT_BYTES))
        except (OSError, HTTPException, ValueError):
            return None
        finally:
            connection.close()

    def _too_late(self, limit_s: float) -> RequestFailed:
        return RequestFailed(f"{self.url} did not answer within {limit_s:g} seconds: {_FAULT}")

    def _refusal(self, response: HTTPResponse, raw: bytes, what: tuple[str, str] | None) -> RequestFailed:
        """The error for a response that is no success."""
        problem = _problem(raw)
        if problem is None:
            kind = printable(response.headers.get("content-type") or "no body")[:60]
            return RequestFailed(f"{self.url} answered {response.status} ({kind}), and not as Leyden does: {_FAULT}")
        detail = problem["detail"]
        if not isinstance(detail, str):
            return not_of_leyden(self.url, f"the detail of its error {response.status} is no text")
        detail = printable(detail)
        if response.status == 401:
            return RequestFailed(self._unauthorized(problem, detail))
        if response.status == 404 and what is not None:
            name, listing = what
            return NotThere(f"there is no {printable(name)}: `{listing}` lists those that there are")
        if response.status == 404:
            return NotThere(f"{self.url}: {detail}")
        if response.status == 400 and problem.get("errors"):
            return WrongArgument("; ".join(self._wrong(error) for error in problem["errors"]))
        return RequestFailed(detail)

    def _wrong(self, error: Mapping[str, Any]) -> str:
        """An error of a field or of a parameter, with the option that gave it."""
        pointer, detail = printable(str(error.get("pointer"))), printable(str(error.get("detail")))
        name = re.sub(r"^(?:query[.]|/)", "", pointer)
        option = "--" + re.sub("[A-Z]", lambda capital: f"-{capital[0].lower()}", name)
        place = option if option in self._options else pointer
        return f"{place}: {detail}" if place else detail  # an empty pointer is the body as a whole

    def _unauthorized(self, problem: Mapping[str, Any], detail: str) -> str:
        if "admin token" in detail:
            return (
                f"{self.url} asks for its admin token: give it with --admin-token or {ADMIN_TOKEN[0]}; the server"
                " printed it when it started, or has it from its own --admin-token"
            )
        return key_refusal(self.url, problem, f"--api-key or {API_KEY[0]}")


_OF_SANDBOX = re.compile("/sandboxes/[^/]+$")
_SMALLER = "give the command more memory, or ask for less with --limit"
_FAULT = "check the URL, and whether a service fault is active (GET /sandbox/v1/service-faults)"


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")


def next_cursor(after: object, found: object) -> object:
    """The cursor `found` in a page, from which the next one begins. Raises `RequestFailed` when it is that of the page
    itself, `after`: such pages have no end."""
    if found is not None and found == after:
        raise RequestFailed(f"the server answers the page after {printable(str(found))[:60]} again and again")
    return found


def _is_about_query(raw: bytes) -> bool:
    """Whether a response refuses a parameter of the query."""
    errors = (_problem(raw) or {}).get("errors") or ()
    return any(str(error.get("pointer")).startswith("query.") for error in errors)


def _problem(raw: bytes) -> Mapping[str, Any] | None:
    """The RFC 9457 document of a response; None for anything else."""
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and "detail" in found else None


def _cause(error: BaseException) -> str:
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)
