"""Finds the operation of a logged request by its method and path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from starlette.routing import compile_path

from leyden.server.contract.types import Contract, Operation


class OperationIndex:
    """The operations of some contracts, by path."""

    def __init__(self, contracts: Iterable[Contract]) -> None:
        literal: dict[str, dict[str, Operation]] = {}
        self._parametrised: list[tuple[re.Pattern[str], dict[str, Operation]]] = []
        self._literal = literal
        for contract in contracts:
            for path, operations in contract.by_path().items():
                by_method = {operation.method.upper(): operation for operation in operations}
                if "{" in path:
                    self._parametrised.append((compile_path(path)[0], by_method))
                else:
                    literal[path] = by_method

    def find(self, method: str, path: str) -> tuple[Operation | None, Mapping[str, str]]:
        """The operation and the parameters in the path; `(None, {})` for no operation."""
        wanted = "GET" if method == "HEAD" else method
        by_method = self._literal.get(path)
        if by_method is not None:
            return by_method.get(wanted), {}
        for pattern, by_method in self._parametrised:
            match = pattern.match(path)
            if match is not None:
                return by_method.get(wanted), match.groupdict()
        return None, {}
