"""Requests, and their responses."""

from __future__ import annotations

from typing import NamedTuple, Self

from leyden.harness.targets.target import Response


class Request(NamedTuple):
    """A request as it is sent."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Exchange(NamedTuple):
    """A request with its response, and the time of the model, in ms, at which it was sent."""

    request: Request
    response: Response
    at_ms: int


class Answered(NamedTuple):
    """A request that was answered, as the journal has it: with the status, with what the answer says that it ignored,
    and with the code of its refusal: empty for a success, None where the answer does not have it."""

    request: Request
    status: int
    ignored: str = ""
    refused: str | None = ""

    @classmethod
    def of(cls, request: Request, response: Response) -> Self:
        """A request with its response."""
        refused: str | None = ""
        if request.method == "HEAD":  # the answer has no body, and that to a wallet has no code
            refused = None
        elif response.status >= 400 or b'"ERROR"' in response.body[:200]:
            body = response.json
            refused = body.get("code") if isinstance(body, dict) else None
        return cls(request, response.status, response.headers.get("leyden-ignored", ""), refused)
