"""The payers of a network by the condition `payer`."""

from __future__ import annotations

from typing import Any

from leyden.lightning.engine.engine import Engine
from leyden.lightning.payer_models.cln import ClnPayer
from leyden.lightning.payer_models.ldk import LdkPayer
from leyden.lightning.payer_models.lnd import LndPayer
from leyden.lightning.payer_models.lnd_estimators import BimodalEstimator
from leyden.lightning.payer_models.payer_model import PayerModel
from leyden.lightning.routing.mission_control import MissionControl
from leyden.lightning.routing.payer_names import CLN, LDK, LND, LND_BIMODAL


def payer_model(engine: Engine) -> PayerModel | None:
    """New payers for an engine, who know nothing; None: they are this simulation's own (`MissionControl`)."""
    name = engine.conditions.parameters.payer
    if name == LND:
        return LndPayer(engine)
    if name == LND_BIMODAL:
        return LndPayer(engine, BimodalEstimator())
    if name == LDK:
        return LdkPayer(engine)
    if name == CLN:
        return ClnPayer(engine)
    return None


def restored_knowledge(engine: Engine, saved: list[list[Any]]) -> MissionControl | PayerModel:
    """What the payers of an engine know, from a dump. Raises `StoreError` for knowledge of another kind of payers."""
    model = payer_model(engine)
    if model is None:
        return MissionControl.restore(engine, saved, engine.capacity)
    model.load(saved)
    return model
