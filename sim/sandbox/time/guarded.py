"""Methods of a sandbox that move its time, and those that are refused while time is moved."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from leyden.sandbox.session import Session


class _HasSession(Protocol):
    session: Session


S = TypeVar("S", bound=_HasSession)
P = ParamSpec("P")
R = TypeVar("R")
Method = Callable[Concatenate[S, P], R]


def moves_time(method: Method[S, P, R]) -> Method[S, P, R]:
    """The method in the context of a move of time: see `Session.moving`."""

    @wraps(method)
    def moving(self: S, /, *args: P.args, **named: P.kwargs) -> R:
        with self.session.moving():
            return method(self, *args, **named)

    return moving


def without_moves(method: Method[S, P, R]) -> Method[S, P, R]:
    """The method while no other thread moves time, and none starts: see `Session.no_moves`."""

    @wraps(method)
    def guarded(self: S, /, *args: P.args, **named: P.kwargs) -> R:
        with self.session.no_moves():
            return method(self, *args, **named)

    return guarded


def refused_while_moved(method: Method[S, P, R]) -> Method[S, P, R]:
    """The method, unless another thread moves time when it is called: see `Session.check_not_moved`."""

    @wraps(method)
    def checked(self: S, /, *args: P.args, **named: P.kwargs) -> R:
        self.session.check_not_moved()
        return method(self, *args, **named)

    return checked
