"""The type of a table as the services see it: the same `IndexedTable`, with a `TypedDict` for its rows.

charges = cast(TypedTable[ChargeRow], store.table("charges"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

R = TypeVar("R")


class TypedTable(Protocol[R]):
    """The interface of a table for a service; `IndexedTable` describes each method."""

    def row(self, key: Any, /) -> R | None: ...

    def id_of(self, key: Any, /) -> int | None: ...

    def existing(self, key: Any, /) -> R: ...

    def put(self, row: R, /) -> int: ...

    def delete(self, key: Any, /) -> bool: ...

    def clear(self) -> int: ...

    def find(self, field: str, value: Any, /) -> list[R]: ...

    def oldest(self) -> R | None: ...

    def first(self, field: str, value: Any, /) -> R | None: ...

    def count_with(self, values: Mapping[str, Any], /) -> int: ...

    def counts(self, *fields: str) -> dict[tuple[Any, ...], int]: ...

    def declare_summary(self, summarize: Callable[[R], tuple[Any, ...]], /) -> None: ...

    def declare_final(self) -> None: ...

    def summaries(self) -> dict[int, tuple[Any, ...]]: ...

    def ids_by_value(self, field: str, /) -> Iterable[tuple[Any, int]]: ...

    def newest_id(self) -> int: ...

    def removed(self) -> int: ...

    def page(
        self,
        filters: Mapping[str, Any] | None = None,
        after: int | None = None,
        limit: int = 100,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> list[Any]: ...

    def page_up(
        self,
        filters: Mapping[str, Any] | None = None,
        after: int | None = None,
        limit: int = 100,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> list[Any]: ...

    def __iter__(self) -> Iterator[R]: ...

    def __len__(self) -> int: ...
