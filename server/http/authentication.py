"""Authentication: the project of a request, by its API key, and error texts that tell apart how a key can be wrong.

Leyden is a sandbox, so the texts may say that a key is unknown or was replaced. They never have a whole key. A
text about another part of the request shows what was sent there, also if that is a key (specs/DECISIONS.md, statuses).
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from leyden.server.errors import Unauthorized
from leyden.server.http.projects import Projects
from leyden.server.printable import masked

# Names under which clients of other services send their key, without hyphens and underscores.
_OTHER_NAMES = frozenset({"apikey", "xapikey", "xapitoken", "apitoken", "xauthtoken", "xkey", "key", "token"})


def authenticate(projects: Projects, header: bytes, headers: Mapping[bytes, bytes], query: bytes) -> str:
    """The project of the API key in the header named `header` (lower case). Raises `Unauthorized`.

    A key that is missing, unknown, replaced, sent twice or in another place gets a text of its own.
    """
    sent = headers.get(header)
    project = None if sent is None else projects.project_for_key(sent.decode("latin-1"))
    if project is not None:
        return project
    name = header.decode()
    wrong = _missing(name, headers, query) if not sent else _unknown(projects, name, sent.decode("latin-1"))
    raise Unauthorized(f"send your project's key in the header {name}; {wrong}", headers=challenge(header))


def challenge(header: bytes) -> dict[str, str]:
    """The header of every 401 (RFC 9110, 11.6.1): the way to authenticate, with the name of the header for the key."""
    return {"WWW-Authenticate": f'ApiKey header="{header.decode()}"'}


def _missing(name: str, headers: Mapping[bytes, bytes], query: bytes) -> str:
    authorization = headers.get(b"authorization")
    if authorization is not None:
        scheme = authorization.decode("latin-1").partition(" ")[0]
        bearer = (
            f", and leave out the word {scheme}" if scheme.lower() in {"bearer", "basic", "token", "apikey"} else ""
        )
        return f"received the header Authorization: send the key as {name}: YOUR_KEY{bearer}"
    for other in sorted(headers):
        if other != name.encode() and is_key_name(other.decode("latin-1")):
            return f"received the header {other.decode('latin-1')}: its name must be {name}"
    if any(is_key_name(key) for key, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)):
        return "received a key in the query: a key in a URL gets into log files"
    return f"the header {name} is {'empty' if name.encode() in headers else 'missing'}"


def _unknown(projects: Projects, name: str, key: str) -> str:
    if projects.was_issued(key):
        return f"the key {masked(key)} was replaced: send the new one"
    first, _, rest = key.partition(" ")
    if rest and first.lower() in {"bearer", "basic", "token", "apikey"}:
        return f"leave out the word {first} before the key"
    if len(key) > 1 and key[0] == key[-1] and key[0] in "\"'":
        return "leave out the quotation marks around the key"
    if "," in key and projects.project_for_key(key.partition(",")[0].strip()) is not None:
        return f"the header {name} is sent twice: send it once"
    if key.startswith("whsec_"):
        return f"the key {masked(key)} is a webhook secret, which only verifies callbacks: send the API key"
    return f"the key {masked(key)} is unknown: the server has another one"


def is_key_name(name: str) -> bool:
    """Whether clients of some service send their key in a header or a parameter of this name."""
    return name.lower().replace("-", "").replace("_", "") in _OTHER_NAMES
