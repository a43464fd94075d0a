"""The texts about fields that requests had and their operations do not know: each is logged once for a server."""

from __future__ import annotations

import logging

from leyden.devserver.request_log.resources import mask_of
from leyden.world.world import World

log = logging.getLogger("leyden")

_MAX_TEXTS = 100


class IgnoredReports:
    """Logs at most a hundred different texts, each once, without secrets: a field may be named like one."""

    def __init__(self) -> None:
        self._texts: set[str] = set()

    def add(self, text: str, world: World) -> str:
        """Log the text about a field of a request to the world. Returns it without secrets."""
        text = mask_of(world).text(text)
        if text not in self._texts and len(self._texts) < _MAX_TEXTS:
            self._texts.add(text)
            log.warning("%s", text)
        return text
