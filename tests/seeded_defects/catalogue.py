"""The catalogue of all defects, ordered by kind."""

from __future__ import annotations

from collections.abc import Mapping

from tests.seeded_defects import (
    amounts,
    contracts,
    copies,
    deliveries,
    echoes,
    faults,
    idempotency,
    invoices,
    keys,
    lists,
    lnurl,
    messages,
    restarts,
    slots,
    states,
    texts,
)
from tests.seeded_defects.defect import KINDS, Defect

MODULES = (
    amounts,
    texts,
    echoes,
    contracts,
    keys,
    states,
    slots,
    invoices,
    deliveries,
    messages,
    faults,
    idempotency,
    lists,
    lnurl,
    restarts,
    copies,
)

DEFECTS: tuple[Defect, ...] = tuple(
    sorted(
        (one for module in MODULES for one in vars(module).values() if isinstance(one, Defect)),
        key=lambda defect: KINDS.index(defect.kind),
    )
)

DEFECTS_BY_NAME: Mapping[str, Defect] = {defect.name: defect for defect in DEFECTS}
