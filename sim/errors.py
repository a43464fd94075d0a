"""Every error that a caller of the Python API may catch. All of them are `LeydenError`s."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from leyden.server.errors import (
    ArgumentError,
    ContractError,
    InvalidAmount,
    LeydenError,
    ListenError,
    Problem,
    ServiceReplaced,
    StorageUnavailable,
    StoreError,
)
from leyden.server.printable import printable

__all__ = [
    "ActionLogError",
    "ApiError",
    "ArgumentError",
    "Bolt11Error",
    "ClockError",
    "ClosedError",
    "ContractError",
    "CopyError",
    "DistributionError",
    "DrawingError",
    "ForkError",
    "GraphError",
    "InterceptError",
    "InvalidAmount",
    "JournalError",
    "LabError",
    "LeydenError",
    "ListenError",
    "MissingExtra",
    "NotebookError",
    "PayerError",
    "PaymentError",
    "Problem",
    "ResponseLost",
    "StorageUnavailable",
    "StoreError",
    "SweepError",
    "UnknownAttempt",
    "UnknownCallback",
]


class ActionLogError(LeydenError):
    """A sandbox without a complete action log has no script; the text says why, and what to use instead."""


class ApiError(LeydenError):
    """The service refused a request. `status` is the HTTP status, `problem` the RFC 9457 document: empty for a response
    without a body, which is given as None. `mend` is added to the text."""

    def __init__(self, status: int, problem: Mapping[str, Any] | None, mend: str = "") -> None:
        said = [str(problem[name]) for name in ("title", "detail") if problem and problem.get(name) is not None]
        if problem is None:
            said = ["the body of the response is empty"]
        elif not said:
            said = ["the body of the response has neither a title nor a detail"]
        # The title of a problem follows its status as in `404 Not found: ...`.
        mark = " " if problem and problem.get("title") is not None else ": "
        super().__init__(f"{status}{mark}{': '.join(said)}{f'; {mend}' if mend else ''}")
        self.status = status
        self.problem: Mapping[str, Any] = {} if problem is None else problem


class Bolt11Error(LeydenError, ValueError):
    """A text is not a valid BOLT11 invoice, or an invoice cannot be encoded; the text names the field."""


class ClockError(LeydenError):
    """The clock cannot do what was asked, for example move back; the text says what to do instead."""


class ClosedError(ServiceReplaced):
    """A sandbox was used after `close()`, or was closed meanwhile. It has no successor."""


class DistributionError(LeydenError, ValueError):
    """A text is not a distribution; the text names the parameter and the forms."""


class DrawingError(LeydenError, ValueError):
    """A drawing cannot be made or saved as asked; the text says what is possible."""


class ForkError(LeydenError):
    """A sandbox cannot be forked, saved, loaded or restored; the text says why, and what to do instead."""


class CopyError(ForkError, TypeError):
    """What belongs to a sandbox was given to `copy` or `pickle`; the text says what to do instead."""


class GraphError(LeydenError, ValueError):
    """A network description cannot be used; the text says what to write instead."""

    exit_status = 2


class InterceptError(LeydenError, ValueError):
    """An interceptor with these conditions is not possible; the text says what to give instead."""


class JournalError(LeydenError):
    """The event journal holds a value that it cannot hash."""


class LabError(LeydenError):
    """`leyden lab` cannot open the notebooks; the text says what to do."""


class MissingExtra(LeydenError, ImportError):
    """A package that only an extra installs is missing; the text names what needs it and the command."""


class NotebookError(LeydenError):
    """A notebook cannot be written or run; the text says what is wrong with its source."""


class PayerError(LeydenError, ValueError):
    """A wallet refuses to pay a payment request; the text says why."""


class PaymentError(LeydenError, ValueError):
    """A payment cannot be attempted; the text says what to give instead."""


class ResponseLost(LeydenError, ConnectionError):
    """A request got no complete response: in process because a fault of the service lost it, over HTTP also for
    another cause. `reason` is `reset`, `closed` or `timeout`."""

    def __init__(self, reason: str, text: str, cause: str = "because a service fault asks for it") -> None:
        super().__init__(f"{text}, {cause}: the request may have been processed")
        self.reason = reason


class SweepError(LeydenError, ValueError):
    """A sweep cannot start; the text says what to give instead."""


class UnknownAttempt(LeydenError, LookupError):
    """No attempt to deliver a callback waits for this recorded response."""


class UnknownCallback(LeydenError, IndexError):
    """An inbox has no callback at this place; the text says how many it has."""


def how_to_start(url: str) -> str:
    """For the error about a server that does not answer at this URL: the command that starts one there, with the words
    that follow it; empty for a URL of another machine, or below a path."""
    base = urlsplit(url)
    if base.hostname not in ("127.0.0.1", "localhost", "::1") or base.path not in ("", "/"):
        return ""
    return f"start it with `leyden serve{'' if base.port in (None, 8402) else f' --port {base.port}'}`, or "


def key_refusal(url: str, problem: Any, options: str) -> str:
    """The text about a server's 401 to an API key: the reason that its problem document gives, and the `options` that
    give the key."""
    detail = printable(str(problem.get("detail", ""))) if isinstance(problem, Mapping) else ""
    why = detail.partition("; ")[2] or detail  # the first part says how the key is sent
    return f"{url} refused the API key: {f'{why}; ' if why else ''}give the key with {options}"


def problem_document(raw: bytes) -> dict[str, Any] | None:
    """The object in the body of a refusal; None for an empty body. Of another body, such as HTML, a document with its
    beginning."""
    if not raw:
        return None
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):  # HTML, as from a proxy
        value, title = None, "not JSON"
    else:
        title = "no JSON object"
    if isinstance(value, dict):
        return value
    return {"title": title, "detail": raw[:200].decode(errors="replace")}
