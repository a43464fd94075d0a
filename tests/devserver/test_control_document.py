"""The document of the control plane is compiled at the first request to it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import httpx2
import pytest

from leyden.devserver.control.handlers import control_handlers
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.server.contract.types import Contract
from leyden.server.errors import ContractError
from leyden.server.store.store import Store
from leyden.world.config import world_config
from leyden.world.world import World


def test_a_control_document_that_does_not_compile_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Contract:
        raise ContractError("paths./sandbox/v1/clock.get: getClokc has no handler; add ControlPlane.get_clokc")

    world = World(
        replace(world_config(seed=7, start_ms=0, control=True), control=broken),
        Store.memory(),
        control_handlers=control_handlers,
    )

    async def statuses() -> list[int]:
        transport = httpx2.ASGITransport(MultiTenantApp({"leyden": world}))
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", headers={"apikey": "leyden"}
        ) as client:
            paths = ("/sandbox/v1/clock", "/sandbox/v1/clock", "/sandbox/v1/deliveries", "/v0/charges")
            return [(await client.get(path)).status_code for path in paths]

    with caplog.at_level(logging.WARNING, logger="leyden"):
        assert asyncio.run(statuses()) == [500, 500, 500, 200]
    assert [record.getMessage() for record in caplog.records if record.name == "leyden"] == [
        "requests to the control plane get 500: paths./sandbox/v1/clock.get: getClokc has no handler; add"
        " ControlPlane.get_clokc"
    ]
