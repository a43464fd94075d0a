"""A budget for requests that need no API key: so many a minute from one address, and from all addresses together."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

# All addresses together may send so many times what one may.
ALL_ADDRESSES = 5
_MAX_ADDRESSES = 4_096
_IPV6_NETWORK_BITS = 64  # a host may have every address of its network


class RequestBudget:
    """Token buckets: an address that was silent for a minute may send `per_minute` requests at once.

    Time is real time (`elapsed_s`, in seconds), not the sandbox's: that may stand still, and would then refuse a client
    for ever. `refused` counts the refusals.
    """

    def __init__(self, per_minute: int, elapsed_s: Callable[[], float]) -> None:
        self._elapsed_s = elapsed_s
        self._per_minute = per_minute
        self._by_address: dict[str, _Bucket] = {}  # the address that was created first comes first
        self._all = _Bucket(per_minute * ALL_ADDRESSES, elapsed_s())
        self.refused = 0

    def refusal(self, address: str) -> str | None:
        """Count a request from this address. If it exceeds the budget, the reason for the client; None otherwise."""
        now_s = self._elapsed_s()
        address = _network(address)
        bucket = self._by_address.get(address)
        if bucket is None:
            if len(self._by_address) >= _MAX_ADDRESSES:
                del self._by_address[next(iter(self._by_address))]
            bucket = self._by_address[address] = _Bucket(self._per_minute, now_s)
        wait_s, whose = bucket.wait_s(now_s), f"{self._per_minute} requests a minute from one address"
        if not wait_s:
            wait_s, whose = self._all.wait_s(now_s), f"{self._per_minute * ALL_ADDRESSES} requests a minute in all"
        if wait_s:
            self.refused += 1
            return f"too many requests: this server takes {whose} without an API key; try again in {wait_s} s"
        bucket.left -= 1
        self._all.left -= 1
        return None


class _Bucket:
    __slots__ = ("_at_s", "_per_minute", "left")

    def __init__(self, per_minute: int, now_s: float) -> None:
        self._per_minute = per_minute
        self._at_s = now_s
        self.left: float = per_minute

    def wait_s(self, now_s: float) -> int:
        """Whole seconds until a request may be sent; 0: now."""
        refilled = (now_s - self._at_s) * self._per_minute / 60
        self.left, self._at_s = min(self._per_minute, self.left + refilled), now_s
        return 0 if self.left >= 1 else max(1, -int(-(1 - self.left) * 60 // self._per_minute))


def _network(address: str) -> str:
    if ":" not in address:
        return address
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or int(parsed) >> (128 - _IPV6_NETWORK_BITS))
