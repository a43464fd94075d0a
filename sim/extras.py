"""Optional packages: what belongs to an extra, and the one line that says how to install it."""

from __future__ import annotations

from importlib.util import find_spec

from leyden.errors import MissingExtra


def require(what: str, package: str, extra: str) -> None:
    """Make sure that `package`, which the extra `extra` installs, is there before `what` imports it.

    Raises `MissingExtra`, for example `sb.charges.table needs pandas: pip install "leyden[lab]", or ...`.
    """
    if not is_installed(package):
        raise MissingExtra(
            f'{what} needs {package}: pip install "leyden[{extra}]", or in a checkout pip install ".[{extra}]"'
        )


def is_installed(package: str) -> bool:
    """Whether a package is there, found without importing it."""
    return find_spec(package) is not None
