"""Named random streams: each part of a world draws from its own, so a draw in one never changes another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b, sha256
from math import cos, exp, log, pi, sqrt
from typing import TypeVar

from leyden.errors import ArgumentError
from leyden.server.ports import RandomSource

T = TypeVar("T")

_BLOCK = 64  # bytes in one draw, the whole of a BLAKE2b digest
_FRACTION = 2.0**-53


class RandomStream:
    """One named, seeded stream (`leyden.server.ports.RandomSource`).

    Draw number k is BLAKE2b of k under the stream's key: the only state is `position`, the number of
    draws, which may be stored and set. Every method makes one draw, except where its text says more.
    """

    __slots__ = ("_keyed", "_positions", "name")

    def __init__(self, name: str, key: bytes, positions: dict[str, int] | None = None) -> None:
        """`key` is 1 to 64 bytes. `positions` is where the position is kept, by `name`; 0 is not written there."""
        self.name = name
        self._positions = {} if positions is None else positions
        self.rekey(key)

    @property
    def position(self) -> int:
        """The number of draws so far."""
        return self._positions.get(self.name, 0)

    def __repr__(self) -> str:
        return f"<RandomStream {self.name!r} after {self.position} draws>"

    def rekey(self, key: bytes) -> None:
        """Draw other numbers from here on, at the same position."""
        # Keyed once and copied for each draw: half the cost of keying anew.
        self._keyed = blake2b(key=key)

    def _draw(self) -> bytes:
        hasher, positions, name = self._keyed.copy(), self._positions, self.name
        position = positions.get(name, 0)
        positions[name] = position + 1
        hasher.update(position.to_bytes(8, "little"))
        return hasher.digest()

    def skip(self) -> None:
        """Make a draw of which nothing is needed."""
        self._positions[self.name] = self._positions.get(self.name, 0) + 1

    def bytes(self, count: int) -> bytes:
        """`count` random bytes: one draw for every 64 or part of them. Raises `ValueError` below zero."""
        if count < 0:
            raise ArgumentError(f"cannot draw {count} bytes")
        if count <= _BLOCK:
            return self._draw()[:count]
        return b"".join(self._draw() for _ in range(-(-count // _BLOCK)))[:count]

    def uniform(self) -> float:
        """A number in [0, 1), a multiple of 2**-53."""
        return (int.from_bytes(self._draw()[:8], "little") >> 11) * _FRACTION

    def below(self, bound: int) -> int:
        """A whole number in [0, bound), every one equally likely. Raises `ValueError` below one.

        A draw that would favour small numbers is thrown away and made again; for bounds under 2**64 the odds of that
        are below 2**-448.
        """
        if bound < 1:
            raise ArgumentError(f"nothing lies in [0, {bound}): the bound must be at least 1")
        blocks = bound.bit_length() // (8 * _BLOCK) + 1
        span = 1 << (8 * _BLOCK * blocks)
        fair = span - span % bound
        while True:
            value = int.from_bytes(self.bytes(blocks * _BLOCK), "little")
            if value < fair:
                return value % bound

    def normal(self, mean: float = 0.0, sigma: float = 1.0) -> float:
        """A number from the normal distribution (Box and Muller, one half of the pair)."""
        block = self._draw()
        radius = 1.0 - (int.from_bytes(block[:8], "little") >> 11) * _FRACTION  # in (0, 1]: its logarithm exists
        angle = (int.from_bytes(block[8:16], "little") >> 11) * _FRACTION
        return mean + sigma * sqrt(-2.0 * log(radius)) * cos(2.0 * pi * angle)

    def lognormal(self, median: float, sigma_log: float) -> float:
        """A positive number whose logarithm is normal: half of them lie below `median`."""
        return median * exp(self.normal(0.0, sigma_log))

    def exponential(self, mean: float) -> float:
        """A waiting time with this mean, in the mean's unit."""
        return -mean * log(1.0 - self.uniform())

    def choice(self, items: Sequence[T]) -> T:
        """One of the items. Raises `ValueError` when there is none."""
        return items[self.below(len(items))]

    def shuffle(self, items: Iterable[T]) -> list[T]:
        """The items in random order, in a new list; one draw for each but the first."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.below(last + 1)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed


class RandomStreams:
    """All random streams of one sandbox. Equal seeds give equal streams.

    `salt` distinguishes sandboxes of one seed; `reseeds` lists the seeds given to `reseed` since.
    """

    def __init__(self, seed: int, *, salt: str = "", reseeds: Sequence[int] = ()) -> None:
        self.seed = seed
        self.salt = salt
        self.reseeds = tuple(reseeds)
        self._streams: dict[str, RandomStream] = {}
        self._positions: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<RandomStreams seed={self.seed} reseeds={self.reseeds} {self.snapshot()}>"

    def stream(self, name: str) -> RandomStream:
        """The stream of this name: the same object each time."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = RandomStream(name, self._key(name), self._positions)
        return stream

    def secret(self, name: str) -> bytes:
        """32 bytes that depend on the seed and the name alone, not on draws or reseeding: for keys that last."""
        return self._derive("secret", name)

    def reseed(self, seed: int) -> None:
        """Keep every stream's position and draw other numbers from here on."""
        self.reseeds = (*self.reseeds, seed)
        for stream in self._streams.values():
            stream.rekey(self._key(stream.name))

    def fork(self, reseed: int | None = None) -> RandomStreams:
        """A copy at the same positions, which draws the same numbers, or others if `reseed` is given."""
        fork = RandomStreams(
            self.seed, salt=self.salt, reseeds=self.reseeds if reseed is None else (*self.reseeds, reseed)
        )
        fork.restore(self.snapshot())
        return fork

    def go_on(self, name: str, former: RandomStreams) -> None:
        """Set one stream to its position in `former`: of equal seeds too, it draws nothing that was drawn there."""
        self._positions[name] = former._positions.get(name, 0)

    # A commit that fails returns its draws (`leyden.server.store.rows.CommitParticipant`)

    def begin(self) -> None:
        """Remember the positions."""
        self._before = self._positions.copy()

    def commit(self) -> None:
        """Keep the draws made since `begin`."""

    def rollback(self, error: BaseException) -> None:
        """Return to the positions at `begin`."""
        self.restore(self._before)

    def snapshot(self) -> dict[str, int]:
        """The position of every stream that was drawn from. With `seed`, `salt` and `reseeds` this is the whole
        state.
        """
        return self._positions.copy()

    def restore(self, snapshot: Mapping[str, int]) -> None:
        """Set every stream to its position in `snapshot`, and those it does not name to 0."""
        self._positions.clear()  # and not replaced: every stream looks into this one
        self._positions.update(snapshot)

    def _key(self, name: str) -> bytes:
        return self._derive("stream", *map(str, self.reseeds), name)

    def _derive(self, *words: str) -> bytes:
        # repr keeps the words apart: no salt or name can be chosen to look like two.
        return blake2b(repr((self.seed, self.salt, *words)).encode(), digest_size=32).digest()


def derived_seed(seed: int, name: str) -> int:
    """Another seed, from 0 to 2**48 - 1, that depends on both: equal ones give equal seeds."""
    return int.from_bytes(sha256(f"{seed} {name}".encode()).digest()[:6], "big")


def uuid4_from(source: RandomSource) -> str:
    """An identifier with the shape of a UUID version 4 (RFC 9562), from 16 bytes of `source`."""
    digits = source.bytes(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
