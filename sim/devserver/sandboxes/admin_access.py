"""The admin token: who may create, list, reset and remove the sandboxes of a server."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from leyden.server.errors import Unauthorized

_HEADERS = {"WWW-Authenticate": "Bearer"}


class AdminAccess:
    """Checks the header `Authorization: Bearer TOKEN`. Without a token every request is allowed: the server is reached
    from its own machine only, and its host policy refuses the pages of other sites."""

    def __init__(self, token: str | None) -> None:
        self._token = None if token is None else token.encode("latin-1", "replace")

    @property
    def secret_texts(self) -> tuple[str, ...]:
        """The token, which nothing shows."""
        return () if self._token is None else (self._token.decode("latin-1"),)

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return self._token is None

    def authenticate(self, headers: Mapping[bytes, bytes], query: bytes) -> str:
        """Raise `Unauthorized` unless the request has the token. The project of such a request has no name."""
        if self._token is None:
            return ""
        sent = headers.get(b"authorization")
        if sent is None:
            wrong = "the header Authorization is missing"
            if b"apikey" in headers:
                wrong += "; the API key of a sandbox is not the admin token"
        else:
            scheme, _, token = sent.partition(b" ")
            if scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token):
                return ""
            wrong = "this token is another one" if scheme.lower() == b"bearer" else "write Bearer before the token"
        raise Unauthorized(
            f"send the server's admin token as Authorization: Bearer TOKEN ({wrong}); the server printed it when it"
            " started, or has it from --admin-token; pytest takes it as --leyden-admin-token, or from"
            " LEYDEN_ADMIN_TOKEN",
            headers=_HEADERS,
        )
