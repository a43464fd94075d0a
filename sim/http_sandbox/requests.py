"""Requests of `leyden.http_sandbox` to a server, and their errors."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any, NoReturn, cast
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from leyden.api_client.key_header import KEY_HEADER, header_asked_for
from leyden.api_client.response_bodies import TooLong, bounded_body
from leyden.api_client.response_forms import wrong_response
from leyden.api_client.served_document import DOCUMENT_PATH, JSON, REFUSED, is_of_service, served_request
from leyden.arguments import checked_text
from leyden.errors import ApiError, ArgumentError, LeydenError, ResponseLost, how_to_start, problem_document
from leyden.http_sandbox.instead import INSTEAD
from leyden.server.callbacks.url_parts import url_parts
from leyden.server.printable import cut, printable, quoted, without_user
from leyden.server.spelling import closest

_METHOD, _TARGET, _TOKEN = re.compile("[A-Za-z]{1,20}"), re.compile("/[!-~]*"), re.compile("[ -~]*")
_TIMEOUT_S = 60  # longer than any wait of the server
_opener = build_opener(ProxyHandler({}))  # a server for tests is not behind a proxy


def ask(
    base: str,
    method: str,
    target: str,
    body: Mapping[str, Any] | None,
    headers: Mapping[str, str],
    *,
    warns: bool = False,
    media_type: str = JSON,
) -> Any:
    """Send one request, with a body of this media type, and return the JSON of its response.

    A key in `headers` is sent again under the name that the service asks for, if it has another one. If it `warns`,
    there is a `UserWarning` about what the service ignored of the request.
    Raises `ArgumentError` for what no request can have, `LeydenError` if `base` is no URL, no connection is made or the
    response is not one of Leyden's, `ResponseLost` if no complete response comes, and `ApiError` for any status but
    2xx.
    """
    if not isinstance(method, str) or not _METHOD.fullmatch(method):
        raise ArgumentError(f"method={quoted(method, 60)} is no method of HTTP: give one such as GET")
    if not isinstance(target, str) or not _TARGET.fullmatch(target):
        raise ArgumentError(
            f"target={quoted(target, 60)} is no path: begin it with /, and percent-encode other characters than"
            " printable ASCII"
        )
    try:
        fault = url_parts(base).address_fault()
    except ArgumentError:  # urllib reads files, too
        raise _no_url(base) from None
    if fault:
        raise LeydenError(f"{without_user(base)!r:.200}: {fault}")
    sent = dict(headers)
    raw = other = ignored = None
    if body is not None:
        sent["content-type"], raw = media_type, _encoded(body)
    try:
        with _opener.open(Request(base + target, raw, sent, method=method), timeout=_TIMEOUT_S) as response:
            status, answer = response.status, bounded_body(response)
            ignored = response.headers.get("leyden-ignored")
    except HTTPError as refused:
        with refused:
            try:
                status, answer = refused.code, bounded_body(cast(HTTPResponse, refused.fp))
                other = header_asked_for(status, refused.headers.get("www-authenticate"))
            except (OSError, HTTPException) as error:
                _lost(base, error, within=True)
    except URLError as error:  # raised while the connection was made, or the request was sent
        if isinstance(error.reason, (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)):
            _lost(base, error.reason)
        raise LeydenError(
            f"no server answers at {base} ({error.reason}): {how_to_start(base)}give the URL of one that runs"
        ) from None
    except (OSError, HTTPException) as error:
        _lost(base, error)
    except TooLong as error:
        raise not_of_leyden(base, error) from None
    except ValueError:
        raise _no_url(base) from None
    if other is not None and KEY_HEADER in headers and other not in headers:
        renamed = {**headers, other: headers[KEY_HEADER]}
        return ask(base, method, target, body, renamed, warns=warns, media_type=media_type)
    if not 200 <= status < 300:
        raise ApiError(status, problem_document(answer))
    if warns and ignored:
        warnings.warn(
            f"{method} {target} ignores {printable(ignored[:400]).replace(';did-you-mean=', '; did you mean ')}",
            stacklevel=6,
        )
    try:
        value = json.loads(answer) if answer else {}
    except (ValueError, RecursionError) as error:
        raise not_of_leyden(base, error) from None
    wrong = wrong_response(method, target, value)
    if wrong is not None:
        raise not_of_leyden(base, printable(cut(wrong, 200)))
    return value


class ServedService:
    """Requests to a server at the paths and with the media types of its document, which is read once one was refused
    that it may have elsewhere."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._document: Any = None

    def ask(
        self, method: str, target: str, body: Mapping[str, Any] | None, headers: Mapping[str, str], *, warns: bool
    ) -> Any:
        """As the function `ask`; the method and the target may be those of the packaged document."""
        sent = served_request(self._document, method, target)
        try:
            return ask(self._base, *sent[:2], body, headers, warns=warns, media_type=sent.media_type)
        except ApiError as refused:
            if refused.status not in REFUSED or self._document is not None or not is_of_service(target):
                raise
            with suppress(LeydenError):
                self._document = ask(self._base, "GET", DOCUMENT_PATH, None, {})
            again = served_request(self._document, method, target)
            if again == sent:
                raise
        return ask(self._base, *again[:2], body, headers, warns=warns, media_type=again.media_type)


def is_missing(refused: ApiError) -> bool:
    """Whether a server says that the resource of a path does not exist: its own 404, and not that of another program,
    which knows no such path."""
    return refused.status == 404 and refused.problem.get("status") == 404


def segment(name: str, value: Any) -> str:
    """A text as a part of a path. Raises `ArgumentError` for anything else."""
    return quote(checked_text(name, value), safe="")


def bearer(token: Any) -> dict[str, str]:
    """The header of an admin token; none for None. Raises `ArgumentError` for what no header can have."""
    if token is None:
        return {}
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ArgumentError("admin_token is no token: give the text of --admin-token, in printable ASCII")
    return {"authorization": f"Bearer {token}"}


def _encoded(body: Any) -> bytes:
    if not isinstance(body, Mapping):
        raise ArgumentError(f"body={quoted(body, 60)} is no JSON object: give a dict")
    try:
        return json.dumps(dict(body), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        name, value = next((one for one in body.items() if not _is_json(dict([one]))), ("body", body))
        raise ArgumentError(
            f"{quoted(name, 60) if not isinstance(name, str) else name[:60]}={quoted(value, 60)} cannot be written as"
            " JSON: give texts, finite numbers, lists and dicts"
        ) from None


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def not_of_leyden(base: str, cause: object) -> LeydenError:
    """The error for a response that Leyden does not send."""
    return LeydenError(f"{base} did not answer as Leyden does ({cause}): give the URL of `leyden serve`")


def _no_url(base: str) -> LeydenError:
    return LeydenError(f"{without_user(base)!r:.200} is no base URL: give one such as http://127.0.0.1:8402")


def _lost(base: str, error: Exception, *, within: bool = False) -> NoReturn:
    """Raise `ResponseLost` for an error after the connection was made."""
    cause = f"because a service fault asks for it, or {base} stopped"
    match error:
        case TimeoutError():
            lost = ResponseLost("timeout", f"the next byte of the response did not come within {_TIMEOUT_S} s", cause)
        case IncompleteRead():
            lost = ResponseLost("closed", "the connection was closed within the response", cause)
        case OSError():  # http.client.RemoteDisconnected, too
            where = "within" if within else "before"
            lost = ResponseLost("reset", f"the connection was reset {where} the response", cause)
        case _:
            raise LeydenError(f"{base} does not answer in HTTP ({error}): give the URL of `leyden serve`") from None
    raise lost from None


class OverHttp:
    """A class whose error for an attribute that it does not have says what to use over HTTP instead, or the nearest
    name. Its repr has what names the object, and sends no request."""

    def __repr__(self) -> str:
        own = vars(self)
        named = own["id"] if "id" in own else quoted(own["name"], 60) if "name" in own else own["_path"]
        return f"{type(self).__name__}({named})"

    def __getattr__(self, name: str) -> NoReturn:
        kind = type(self).__name__
        instead = INSTEAD.get(f"{kind}.{name}", INSTEAD.get(name))
        if instead is not None:
            why = f"{kind} has no {name}, which is not available over HTTP: {instead}"
        else:
            known = sorted(one for one in {*dir(type(self)), *vars(self)} if not one.startswith("_"))
            near = closest(name, known)
            mend = f"did you mean {near}?" if near is not None else f"it has {', '.join(known)}"
            why = f"{kind} has no {printable(name[:60])}: {mend}"
        raise AttributeError(why, name=name)  # without `obj`: Python would add its own hint
