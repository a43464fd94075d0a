"""Bodies of responses from a server that may be another program: each is read up to a bound."""

from __future__ import annotations

from http.client import HTTPResponse, IncompleteRead

# A page of a thousand callbacks or requests with their bodies has about 130 MB.
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
_PART_BYTES = 1024 * 1024


class TooLong(ValueError):
    """A response has more bytes than are read."""

    def __init__(self, most: int) -> None:
        super().__init__(f"its response has more than {most} bytes, and no more are read")


def bounded_body(response: HTTPResponse, most: int = MAX_RESPONSE_BYTES) -> bytes:
    """The body of a response. Raises `TooLong` for one with more than `most` bytes, and what `HTTPResponse.read` raises
    for one that ends too early."""
    found = bytearray()
    while part := response.read(_PART_BYTES):
        found += part
        if len(found) > most:
            raise TooLong(most)
    if response.length:  # it is not reported when a number of bytes is read
        raise IncompleteRead(bytes(found[-100:]), response.length)
    return bytes(found)
