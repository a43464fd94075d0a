"""Paths at which no file can be: the system refuses them for a reason other than that nothing is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.served import ROOT

NOBODY = 65_534  # a user who owns nothing
KINDS = ("long name", "long path", "through a file", "loop", "no permission")


def odd_path(kind: str, folder: Path, suffix: str = ".json") -> str:
    """A path of a kind below `folder`, with what makes it so."""
    if kind == "long name":
        return str(folder / ("a" * 300 + suffix))
    if kind == "long path":
        return os.path.join(folder, *["b" * 200] * 25, f"file{suffix}")
    if kind == "through a file":
        (folder / "plain").write_text("")
        return str(folder / "plain" / f"file{suffix}")
    if kind == "no permission":
        (folder / "closed").mkdir(mode=0)
        return str(folder / "closed" / f"file{suffix}")
    assert kind == "loop"
    for one, other in (("one", "other"), ("other", "one")):
        (folder / f"{one}{suffix}").symlink_to(folder / f"{other}{suffix}")
    return str(folder / f"one{suffix}")


@contextmanager
def as_a_user() -> Iterator[None]:
    """While this process is not root, who may read and write everything: root is another user meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        if not os.access(ROOT / "sim" / "__main__.py", os.R_OK, effective_ids=True):
            pytest.skip("another user cannot read the program")
        yield
    finally:
        os.seteuid(0)
