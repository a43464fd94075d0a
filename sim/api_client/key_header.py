"""The header of the API key, as a client over HTTP finds it out."""

from __future__ import annotations

import re

KEY_HEADER = "apikey"  # of the control plane, and of the service unless its document names another one
_CHALLENGE = re.compile(r'ApiKey header="([^"]+)"')


def header_asked_for(status: int, challenge: str | None) -> str | None:
    """The other header in which a service wants the key, by the status and the `WWW-Authenticate` of its response; None
    if it wants it in `KEY_HEADER`, or refused the request for another reason."""
    found = _CHALLENGE.fullmatch(challenge or "") if status == 401 else None
    return None if found is None or found[1] == KEY_HEADER else found[1]
