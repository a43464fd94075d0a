"""Obligations of the header Host: which names a server answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from leyden.harness.obligations.control.setups import send
from leyden.harness.obligations.obligation import Obligation

_SOURCE = "sandbox.openapi.yaml#/info"
_MISDIRECTED = 421
# `localhost`, the names below it, and every address; nothing else, however similar.
_ANSWERED = ("localhost", "LOCALHOST", "Localhost:80", "localhost:8402", "localhost.", "shop.localhost",
             "a.b.localhost", "SHOP.localhost:8402", "127.0.0.1", "127.0.0.1:8402", "10.1.2.3",
             "[::1]", "[::1]:8402")  # fmt: skip
_REFUSED = ("notlocalhost", "shop.notlocalhost", "localhost.example", "localhostx", "xlocalhost:8402", "local",
            "example", "shop.example", ".localhost", "a..localhost", "localhost-", "127.0.0.1.example",
            "localhost,shop.example",
            "shop.example:localhost", "localhost@shop.example", "localhost/", "256.1.1.1.example")  # fmt: skip
_TARGETS: Mapping[str, str] = {"service": "/v0/wallet", "control": "/sandbox/v1"}


def host_obligations() -> Iterator[Obligation]:
    """Each name at the service and at the control plane."""
    for part, target in _TARGETS.items():
        for name in (*_ANSWERED, *_REFUSED):
            more = {} if name in _ANSWERED else {"status": _MISDIRECTED}
            step = send("GET", target, headers=[["Host", name]], **more)
            yield Obligation(f"{part} header.Host", "host", name, _SOURCE, (step,), setup="control-empty")
