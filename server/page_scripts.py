"""The scripts of the documentation page, where a server has some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PAGE_SCRIPTS = "leyden.page_scripts"  # in the scope of a request: the `PageScripts` of the server that received it


class PageScripts(NamedTuple):
    """The URL of an ES module on the same server, and the values that it reads from `meta` elements of the page."""

    module: str
    meta: Mapping[str, str]
