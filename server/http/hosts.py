"""The hosts and origins that a server answers. They protect a sandbox from pages in the developer's browser.

A page of another site may let its own name resolve to 127.0.0.1 (DNS rebinding). Its requests then are of the same
origin for the browser, but their `Host` header still has that name. An address cannot be rebound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from urllib.parse import urlsplit

from starlette.types import Scope

from leyden.server.callbacks.ip_addresses import parse_host_address
from leyden.server.errors import ForeignOrigin, MisdirectedRequest, Problem
from leyden.server.printable import quoted

# A host with an optional port, as in `Host` (RFC 9110, 7.2), of the characters of names and addresses; and an origin
# (RFC 6454, 6.2). Other characters are refused, because a program that reads them otherwise would find another host.
_HOST = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::[0-9]*)?"
_AUTHORITY = re.compile(_HOST)
_ORIGIN = re.compile("[A-Za-z][A-Za-z0-9+.-]*://" + _HOST)

_NAME = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_][A-Za-z0-9_-]{0,62}(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*")

_SHOWN = 100
_REMEMBERED = 256


def _authority(text: str) -> str:
    """A host and a port in one spelling. The ports 80 and 443 are the defaults, so they equal no port."""
    host, colon, port = text.lower().rpartition(":")
    return text.lower() if not colon or "]" in port else host if port in ("", "80", "443") else f"{host}:{port}"


def _authority_host(authority: str) -> str:
    """The host of an authority in one spelling, an IPv6 address with its brackets."""
    match = _AUTHORITY.fullmatch(authority)
    return authority if match is None else match["host"]


def is_host_name(text: str) -> bool:
    """Whether this can be the name of a host: letters, digits, hyphens, underscores and single dots."""
    return _NAME.fullmatch(text) is not None


class HostPolicy:
    """The hosts and origins that a server answers.

    Hosts: `localhost` and the names below it, every IP address, and `names` (without ports, any case). On paths for
    which `is_protected(path)` is true, requests from web pages (`Origin`, `Sec-Fetch-Site`) are answered only if the
    page has the same host and port as the request, or is one of `pages`: a URL, or a name with a default port or that
    of the request. Another program on a machine may serve pages, too. Links and frames of a page are its requests.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        is_protected: Callable[[str], bool] = lambda path: True,
        pages: Collection[str] = (),
    ) -> None:
        self._names = frozenset(name.lower().rstrip(".") for name in names)
        self._page_names = frozenset(name.lower().rstrip(".") for name in pages if "://" not in name)
        self._page_authorities = {_authority(urlsplit(url).netloc) for url in pages if "://" in url}
        self._is_protected = is_protected
        self._allowed: set[bytes] = set()  # `Host` headers that were allowed, as they were sent

    def refusal(self, scope: Scope) -> Problem | None:
        """The problem of a request that is not answered, or None."""
        from_browser = False
        for name, value in scope["headers"]:
            if name == b"host":
                if value not in self._allowed and not self._allow(value):
                    return self._misdirected(value)
            elif name in (b"origin", b"sec-fetch-site"):
                from_browser = True
        return self._foreign(scope) if from_browser else None

    def allows(self, host: str) -> bool:
        """Whether requests for a host are answered. `host` has no port; an IPv6 address may have brackets."""
        host = host.lower().removesuffix(".")
        if host in self._names:
            return True
        *below, top = host.split(".")
        if top == "localhost":
            return all(below)
        try:
            return parse_host_address(host.removeprefix("[").removesuffix("]")) is not None
        except ValueError:
            return False

    def _allow(self, value: bytes) -> bool:
        allowed = self._allows_match(_AUTHORITY.fullmatch(value.decode("latin-1")))
        if allowed and len(self._allowed) < _REMEMBERED:
            self._allowed.add(value)
        return allowed

    def _allows_match(self, match: re.Match[str] | None) -> bool:
        return match is not None and self.allows(match["host"])

    def _foreign(self, scope: Scope) -> Problem | None:
        headers = dict(scope["headers"])
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin" and value]
        own = _authority(headers.get(b"host", b"").decode("latin-1"))
        foreign = next((text for text in origins if not self._allows_origin(text, own)), None)
        sites = {value.strip().lower() for name, value in scope["headers"] if name == b"sec-fetch-site"}
        is_foreign = foreign is not None or b"cross-site" in sites or (b"same-site" in sites and not origins)
        if not is_foreign or not self._is_protected(scope["path"]):
            return None
        origin = foreign or next(iter(origins), None)
        page = "another origin" if origin is None else f"{origin[:_SHOWN]!r}"
        return ForeignOrigin(
            f"a page of {page} sent this request, and pages of other origins (host and port) may not use the sandbox:"
            " send it from your server, which has the API key, not from a page"
        )

    def _allows_origin(self, text: str, own: str) -> bool:
        match = _ORIGIN.fullmatch(text)
        if match is None:
            return False
        authority = _authority(text.partition("://")[2])
        if authority in {own, *self._page_authorities}:
            return True
        host = match["host"].lower()
        is_own_port = authority.removeprefix(host) in ("", own.removeprefix(_authority_host(own)))
        return host.rstrip(".") in self._page_names and is_own_port

    def _misdirected(self, value: bytes) -> Problem:
        text = value.decode("latin-1")
        match = _AUTHORITY.fullmatch(text)
        host = text if match is None else match["host"]
        use = "use localhost or its IP address"
        if self._names:
            use = "use localhost, its IP address, or the name of its machine, of --public-url or of --allow-host"
        if match is None:
            said = f"the header Host is {quoted(text, _SHOWN)}, which is no host, with or without a port"
        else:
            said = f"this server does not answer requests for the host {quoted(host, _SHOWN)}"
            if is_host_name(host.removesuffix(".")):
                use += ", or start Leyden with --allow-host and that name"
        return MisdirectedRequest(f"{said}: {use}")
