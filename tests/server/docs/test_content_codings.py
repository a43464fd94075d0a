"""Pages are compressed for a client that accepts gzip (RFC 9110, 12.5.3), and for no other."""

from __future__ import annotations

import gzip

import pytest

from leyden import Sandbox
from leyden.server.http.request_parsing import accepts_coding

ACCEPTED = ["gzip", "GZIP", "br, gzip", "gzip;q=0.5", "gzip; q=0.001, *;q=0", "*", "identity;q=0, *;q=0.1"]
REFUSED = ["", "br", "gzip;q=0", "gzip;q=0.0, *;q=1", "gzip;q=0, identity", "*;q=0", "x-gzip", "gzipped"]


@pytest.mark.parametrize(("header", "is_accepted"), [(h, True) for h in ACCEPTED] + [(h, False) for h in REFUSED])
def test_the_most_specific_coding_decides(header: str, is_accepted: bool) -> None:
    assert accepts_coding(header, "gzip") == is_accepted
    sandbox = Sandbox(seed=7)
    for path in ("/docs", "/openapi.json"):
        plain = sandbox.request("GET", path)
        found = sandbox.request("GET", path, headers={"accept-encoding": header})
        headers = {name.decode(): value.decode() for name, value in dict(found.headers).items()}
        assert (headers.get("content-encoding") == "gzip") == is_accepted
        assert headers["vary"] == "Accept-Encoding"
        assert (gzip.decompress(found.body) if is_accepted else found.body) == plain.body
