"""Plain values as compressed bytes, for what is seldom read and need not be kept as objects."""

from __future__ import annotations

import marshal
import zlib
from typing import Any


def pack(value: Any) -> bytes | None:
    """`value` in a quarter of its memory or less; None when it holds anything but exact built-in plain types.

    Those are dict, list, tuple, str, bytes, int, float, bool and None. `unpack` restores every value and type. The form
    belongs to one version of Python: it is for memory, never for files.
    """
    try:
        return zlib.compress(marshal.dumps(value), 1)
    except ValueError:
        return None


def unpack(packed: bytes) -> Any:
    """What `pack` was given."""
    return marshal.loads(zlib.decompress(packed))
