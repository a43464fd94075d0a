"""The environment variables that name a served sandbox, and their defaults."""

from __future__ import annotations

import os

URL = ("LEYDEN_URL", "http://127.0.0.1:8402")
API_KEY = ("LEYDEN_API_KEY", "leyden")
ADMIN_TOKEN = ("LEYDEN_ADMIN_TOKEN", "")


def from_environment(variable: tuple[str, str]) -> str:
    """The value of a variable, given as its name and its default; an empty one counts as not set."""
    name, default = variable
    return os.environ.get(name) or default
