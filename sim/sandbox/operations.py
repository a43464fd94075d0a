"""Operations of the service: their paths, and their refusals as errors of Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.arguments import checked_text, hint
from leyden.errors import ApiError, ContractError
from leyden.server.printable import quoted
from leyden.world.config import packaged_contract
from leyden.world.world import World


def refusal(world: World, status: int, problem: Mapping[str, Any] | None) -> ApiError:
    """The error of a refusal. One about an id that may be of a removed row says how many there are, and where."""
    detail = None if problem is None else problem.get("detail")
    if problem is not None and isinstance(detail, str):
        with world.exclusive():
            by_what, removed = world.removed.hint(), world.removed.unknown("charges", "staticCharges")
        if detail.endswith(by_what):
            problem = {**problem, "detail": detail.removesuffix(by_what) + removed}
    return ApiError(status, problem)


def path_of(world: World, operation_id: str) -> str:
    """The path template of an operation. Raises `ContractError` when the specification in use leaves it out, and with
    the nearest name for one that no specification of the service has."""
    checked_text("operation_id", operation_id)
    contract = world.config.contract
    known = contract.operations.keys() | packaged_contract("charges").operations.keys()
    if operation_id not in known:
        mend = hint(operation_id, sorted(contract.operations))
        raise ContractError(f"{contract.title} has no operation {quoted(operation_id, 60)}: {mend}")
    return contract.operation(operation_id).path
