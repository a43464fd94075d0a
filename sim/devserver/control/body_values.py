"""Values in the bodies of control operations that a schema alone cannot judge: ids of Charges and spans of time."""

from __future__ import annotations

from leyden.server.errors import FieldError, SemanticConflict
from leyden.server.timestamps import duration_up_to
from leyden.world.time.clock import LAST_MS
from leyden.world.world import World


def check_charge_id(world: World, charge_id: str | None, pointer: str) -> None:
    """Raise `SemanticConflict` for an id that no Charge and no Static Charge of the world has."""
    service = world.service
    tables = (service.charges.charges, service.static_charges.static_charges)
    if charge_id is not None and all(table.row(charge_id) is None for table in tables):
        detail = "no Charge and no Static Charge of this sandbox has this id: create it first, or check the id"
        if world.removed.any_row():
            detail += world.removed.hint()
        raise SemanticConflict(detail, field_errors=[FieldError(pointer, detail)])


def span_ms(pointer: str, value: str | float) -> int:
    """A span in milliseconds. The schema bounds the digits of a text, but not the sum of its parts: time ends before a
    span that is too long. Raises `SemanticConflict` for one that is shorter than a millisecond."""
    try:
        return duration_up_to(value, LAST_MS)
    except ValueError as error:
        raise SemanticConflict(str(error), field_errors=[FieldError(pointer, str(error))]) from None
