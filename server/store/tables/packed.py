"""Plain values as compressed bytes, for what is seldom read and need not be kept as objects."""

from __future__ import annotations

import marshal
import sys
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LENGTH_BYTES = 4
_LEVEL = 1  # at a higher one a block of sixteen rows is no smaller, and takes longer


def pack(value: Any) -> bytes | None:
    """`value` in a quarter of its memory or less; None when it holds anything but exact built-in plain types.

    Those are dict, list, tuple, str, bytes, int, float, bool and None. `unpack` restores every value and type. The form
    belongs to one version of Python: it is for memory, never for files.
    """
    try:
        plain = marshal.dumps(value)
    except ValueError:
        return None
    return zstd.compress(plain, _LEVEL)


def unpack(packed: bytes) -> Any:
    """The value of a block of `pack`."""
    return marshal.loads(zstd.decompress(packed))


def pack_with_summary(value: Any, summary: Any) -> bytes | None:
    """As `pack`, with a summary before the value that is read without unpacking it. None is no summary.

    The summary is short, and is not compressed: that would take as long as compressing the value.
    """
    packed = pack(value)
    if packed is None:
        return None
    head = marshal.dumps(summary)
    return len(head).to_bytes(_LENGTH_BYTES, "little") + head + packed


def summary_of(block: bytes) -> Any:
    """The summary that `pack_with_summary` was given. Marshal ignores what follows it."""
    return marshal.loads(memoryview(block)[_LENGTH_BYTES:])


def unpack_after_summary(block: bytes) -> Any:
    """The value in a block of `pack_with_summary`."""
    return marshal.loads(zstd.decompress(memoryview(block)[_end_of_summary(block) :]))


def _end_of_summary(block: bytes) -> int:
    return _LENGTH_BYTES + int.from_bytes(block[:_LENGTH_BYTES], "little")
