"""One run of the benchmarks: its scale, a temporary folder, and the big store that several parts use."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType

from tests.benchmarks.measuring import Scale
from tests.benchmarks.serving import leyden, load, request

FROZEN = ("--rate", "0", "--start", "2030-01-01T09:00:00Z", "--seed", "1")
_EXPIRING = 10  # of a hundred requests, those whose charges run out soon


@dataclass(frozen=True, slots=True)
class Stock:
    """A data directory with many charges, made over HTTP, and what the server that made it held in memory meanwhile.

    A tenth of the charges has expired, the others are pending; of their `internalId`s, `order-0` to `order-99`, each
    belongs to a hundredth.
    """

    folder: Path
    counts: tuple[int, int]
    idle_bytes: int
    memory_bytes: tuple[int, int]


class Bench:
    """The argument of each part."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self._temporary = tempfile.TemporaryDirectory(prefix="leyden-benchmarks-")

    def folder(self) -> Path:
        """A fresh empty folder, gone after the run."""
        return Path(tempfile.mkdtemp(dir=self._temporary.name))

    @cached_property
    def stock(self) -> Stock:
        """The big store, made on first use."""
        few, many = self.scale.of(10_000, 100), self.scale.of(100_000, 300)
        folder = self.folder()
        memory = []
        with leyden("--data", str(folder), *FROZEN) as served:
            idle = served.memory_bytes
            for count in (few, many - few):
                load(served, charge_requests(), connections=16, count=count)
                memory.append(served.memory_bytes)
            served.ask("POST", "/sandbox/v1/clock/advance", {"by": "2m"})
        return Stock(folder, (few, many), idle, (memory[0], memory[1]))

    def stocked(self) -> Path:
        """A copy of the big store's data directory, to be changed."""
        copy = self.folder() / "data"
        shutil.copytree(self.stock.folder, copy)
        return copy

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._temporary.cleanup()


def charge_body(number: int = 0) -> dict[str, object]:
    """The body of a request for a charge."""
    return {
        "amount": "250000",
        "description": "Flat white, table 7",
        "internalId": f"order-{number}",
        "expiresIn": 60 if number % 100 < _EXPIRING else 86_400,
    }


def charge_requests() -> list[str]:
    """A hundred different requests for a charge."""
    return [request("POST", "/v0/charges", charge_body(number)) for number in range(100)]
