"""Where a served sandbox is reached, and by which API key beyond this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from leyden.devserver.console.console import DEFAULT_KEY
from leyden.files.json_files import InputError, read_text
from leyden.server.callbacks.ip_addresses import parse_host_address
from leyden.server.callbacks.url_parts import url_parts
from leyden.server.http.projects import check_key
from leyden.server.store.lock import check_regular, notes_of_access
from leyden.server.store.store import Store
from leyden.server.system.clock import random_key
from leyden.server.system.http_server.listening import host_name, local_addresses

_KEY_FILE, _TOKEN_FILE = "api-key", "admin-token"


class ServerAddresses(NamedTuple):
    """The addresses of a listening server.

    `url` is for programs on this machine, `public_url` the base of the URLs given to wallets. `own` are the hosts and
    ports at which callbacks would reach the server itself. `is_loopback`: it listens on a loopback address. `is_local`:
    only this machine reaches it, because `public_url` is loopback, too; that of another host is one of a proxy.
    """

    url: str
    public_url: str
    own: tuple[tuple[str, int], ...]
    is_loopback: bool
    is_local: bool

    @classmethod
    def of(cls, host: str, port: int, public_url: str | None) -> ServerAddresses:
        """The addresses of a server that listens on an IP address and a port.

        A server on all addresses is `127.0.0.1` for this machine; for others it is the first address of this machine
        that is not loopback, unless `public_url` says something else.
        """
        address = parse_host_address(host)
        everywhere = address is not None and address.is_unspecified
        is_loopback = address is not None and address.is_loopback
        url = public = _url("127.0.0.1" if everywhere else host, port)
        own = [(host, port)]
        if everywhere:
            machine = local_addresses()
            own += [(name, port) for name in machine]
            remote = [name for name in machine if not _is_loopback(name)]
            # IPv4 first: it is what a phone in the same network most likely reaches.
            public = _url(min(remote, key=lambda name: ":" in name), port) if remote else url
        public = public_url or public
        parts = url_parts(public)
        own.append((parts.host, parts.port))
        return cls(url, public, tuple(own), is_loopback, is_loopback and _is_of_this_machine(parts.host))

    @property
    def names(self) -> list[str]:
        """The names by which clients reach the server."""
        return [url_parts(self.public_url).host, host_name()]

    def reach(self, allowed: Sequence[str] = ()) -> str:
        """A sentence for the person who started the server; `allowed` are the hosts of `--allow-host`."""
        if self.is_local:
            also = f", also as {', '.join(allowed)}" if allowed else ""
            return f"reachable from this machine only{also}"
        names = ", ".join(dict.fromkeys(["localhost", "an IP address", *self.names, *allowed]))
        where = "from this machine, and through a proxy from other" if self.is_loopback else "from other"
        at = f"at {self.public_url} (--public-url, --host)"
        if _is_of_this_machine(url_parts(self.public_url).host):  # as for a port that a container publishes
            return (
                f"reachable {where} machines, but {at} from this machine only: LNURLs lead there too, so give a"
                f" --public-url for other machines; it answers as {names}"
            )
        return f"reachable {where} machines, {at}; it answers as {names}"


def default_key_refusal(key: str, *, is_local: bool) -> str | None:
    """Why a server does not issue this API key, or None: everybody knows the default key."""
    if is_local or key != DEFAULT_KEY:
        return None
    return f"the key {DEFAULT_KEY!r} is known to everybody, and other machines reach this server: choose another"


def check_saved_keys(store: Store, data: str, *, is_local: bool) -> None:
    """Raise `InputError` when other machines reach the server and the default key is a valid key of the saved project:
    it would open the project to everybody."""
    row = store.table("keys", key="id").row(DEFAULT_KEY)
    if row is not None and "ended_at" not in row and not is_local:
        raise InputError(
            f"a project in {data} has the key {DEFAULT_KEY!r}, which is known to everybody, and other machines reach"
            f" this server: serve {data} on loopback, without --public-url, and replace the key there with"
            f""" `leyden api POST /sandbox/v1/api-keys/rotate --data '{{"replaces": "{DEFAULT_KEY}"}}'`"""
        )


def api_keys(given: list[str], data: str, *, is_local: bool) -> tuple[list[str], bool]:
    """The API keys to serve, and whether the first one was generated here.

    The default is `leyden`. Everybody knows this key, so it is refused if other machines can reach the server. Then a
    random key is generated and stored in the file `api-key` of the data directory. Raises `InputError`, and
    `StoreError` for a file that is no regular one.
    """
    if len(set(given)) != len(given):
        raise InputError("an API key is given twice: each project needs its own")
    if is_local:
        return given or [DEFAULT_KEY], False
    if DEFAULT_KEY in given:
        raise InputError(
            f"the key {DEFAULT_KEY!r} is known to everybody, and other machines reach this server: leave --api-key out"
            " for a random one, or choose another"
        )
    if given:
        return given, False
    return [random_key() if data == ":memory:" else _kept_key(Path(data), _KEY_FILE)], True


def admin_token(given: str | None, data: str, *, is_local: bool) -> tuple[str | None, bool]:
    """The admin token of the server, and whether it was generated here.

    No token is needed unless one is given, or other machines can reach the server. Then a random token is generated and
    stored in the file `admin-token` of the data directory. Raises `InputError` and `StoreError`, as
    `api_keys` does.
    """
    if given is not None or is_local:
        return given, False
    return random_key() if data == ":memory:" else _kept_key(Path(data), _TOKEN_FILE), True


def access_notes(data: str) -> list[str]:
    """Notes about what other users of the machine can do with the stored key and token of a data directory."""
    return [] if data == ":memory:" else notes_of_access(Path(os.path.realpath(data)), (_KEY_FILE, _TOKEN_FILE))


def _kept_key(folder: Path, name: str) -> str:
    path, what = folder / name, "API key" if name == _KEY_FILE else "admin token"
    try:
        check_regular(path)
        if path.exists():
            return _checked_key(path)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = random_key()
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(key + "\n")
    except OSError as error:
        raise InputError(f"{path}: the {what} cannot be kept there ({error.strerror}); give --{name}") from None
    return key


def _checked_key(path: Path) -> str:
    key = read_text(path).strip()
    try:
        check_key(key)
        if path.name == _KEY_FILE and (refusal := default_key_refusal(key, is_local=False)):
            raise ValueError(refusal)
    except ValueError as error:
        raise InputError(f"{path}: {error}; write another key into the file, or remove it for a new one") from None
    return key


def _is_of_this_machine(host: str) -> bool:
    name, address = host.lower().rstrip("."), parse_host_address(host)
    return f".{name}".endswith(".localhost") or (address is not None and address.is_loopback)


def _is_loopback(address: str) -> bool:
    parsed = parse_host_address(address)
    return parsed is not None and (parsed.is_loopback or parsed.is_link_local)


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
