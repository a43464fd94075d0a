"""An interrupt that Python wraps in another error while it makes a class ends a command as any other one does."""

from __future__ import annotations

import pytest

from leyden import __main__ as entry


def wrapped(cause: BaseException) -> RuntimeError:
    error = RuntimeError("Error calling __set_name__ on 'Field' instance 'children' in 'StaticCharge'")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(("command", "status"), [("conformance", 3), ("charges", 1), ("serve", 0)])
def test_an_interrupt_in_the_making_of_a_class_is_an_interrupt(
    command: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(given: list[str], *, is_process: bool) -> int:
        raise wrapped(KeyboardInterrupt())

    monkeypatch.setattr(entry, "_run", run)
    assert entry.main([command]) == status


def test_another_error_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(given: list[str], *, is_process: bool) -> int:
        raise wrapped(ValueError())

    monkeypatch.setattr(entry, "_run", run)
    with pytest.raises(RuntimeError, match="children"):
        entry.main(["conformance"])
