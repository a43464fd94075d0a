"""The ports of a world: the server to which it is attached, and the log of the network's responses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol, TypeVar

from leyden.server.ports import CallbackRequest, CallbackResponse

Result = TypeVar("Result")


class Slices(Protocol):
    """The division of long work into slices. A new one begins with its making, and with the end of each pause."""

    @property
    def alone(self) -> AbstractAsyncContextManager[object]:
        """Held by a work that needs memory for all rows: such works are done one after another."""

    @property
    def pages(self) -> AbstractAsyncContextManager[object]:
        """Held by a work that reads a long page: few do so at a time."""

    def is_over(self) -> bool:
        """Whether the slice is over. Called once after each step of the work."""

    def pause(self) -> Awaitable[object]:
        """Let other work run."""


class Undivided:
    """Work that is not divided: there is no event loop, or it is not the server's."""

    alone = pages = nullcontext()

    def is_over(self) -> bool:
        """Never."""
        return False

    async def pause(self) -> None:
        """Nothing to do."""


class HostServer(Protocol):
    """The server that a world is attached to, with the other worlds on it."""

    def name_taken(self, user: str, world: Any) -> bool:
        """Whether this lightning address is in use for the world: in it, or in one that shares its names."""

    def key_refusal(self, key: str) -> str | None:
        """Why the server does not issue this API key, such as one of another world, or None."""

    def key_issued(self, key: str, world: Any) -> None:
        """The world has issued this API key: requests with it belong to the world."""

    def responded(self, world: Any) -> None:
        """The world has recorded a response from the network."""

    def report_ignored(self, text: str, world: Any) -> str:
        """Show the text about a request field that the world ignored. Returns what was shown: it has no secrets."""

    @property
    def secret_texts(self) -> tuple[str, ...]:
        """The secrets of the server, which the request log of a world masks."""

    @property
    def lnurl_refused(self) -> int:
        """The number of requests to LNURL that were refused because there were too many."""

    def fork(
        self, world: Any, state: Callable[[], Mapping[str, Any]], rate: float, fields: Mapping[str, Any]
    ) -> Awaitable[Mapping[str, Any]]:
        """Serve another world in this state of the world, with the clock at this rate, and return its resource.

        `state` is called in the thread that builds the world. `fields` is the body of the request. Raises
        `SemanticConflict` where there can be no further world.
        """

    def runs_here(self) -> bool:
        """Whether the caller runs in the server's event loop."""

    def slices(self) -> Slices:
        """The division of long work on the server's event loop."""

    def run_in_thread(self, work: Callable[[], Result]) -> Awaitable[Result]:
        """The result of `work()`, which runs in a thread while the server answers other requests."""

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Run `work()` in a thread, and do not wait for its end."""

    def before_events(self, call: Callable[[], None]) -> None:
        """Call this before the events run that the present request made due, or when the request ends."""

    def turn(self, world: object) -> AbstractAsyncContextManager[object]:
        """Enter to advance the clock of a world: one advance after another."""

    def wait(self, waiting: Awaitable[object], is_over: Callable[[], bool]) -> Awaitable[object]:
        """Wait for an awaitable, but no longer than until `is_over()`."""

    def listen(
        self, world: Any, after: int | None, client: str | None, may_read: Callable[[], bool]
    ) -> AsyncGenerator[bytes]:
        """The server-sent events of the world, from now on, as long as the client `may_read` them."""

    def until(self, world: Any, done: Callable[[], bool], timeout_s: float) -> Awaitable[object]:
        """Wait until `done()`, for at most so many real seconds. What the clock of the world reaches runs meanwhile."""


class NetworkLog(Protocol):
    """An observer of responses from the real network."""

    def responded(self, request: CallbackRequest, response: CallbackResponse, time_s: int) -> None:
        """A response was recorded, at `time_s` on the receiver's clock."""

    def waits(self) -> None:
        """A request that moves time waits for responses."""
