"""Forks: a second world that begins exactly where the first one stands; or the first one, written down for later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from leyden.errors import ForkError
from leyden.server.contract.load import known_overlays, load_contract
from leyden.server.contract.types import Contract
from leyden.server.store.store import Store
from leyden.server.store.table_data import TableSnapshot
from leyden.world.config import WorldConfig, chosen_network, packaged_contract
from leyden.world.gc_pause import gc_paused
from leyden.world.world import LOCAL_URL, World

FORMAT = 1

_OWN_TABLES = ("world", "network")  # what a world writes down about itself for a restart; a fork is in memory


def fork_world(world: World, label: str, *, reseed: int | None = None) -> World:
    """A world of its own that stands where `world` stands: same rows, instant, timers, inboxes and luck.

    With `reseed` every stream of chance goes on differently from here. Rows, journal entries and received posts are
    shared, because none of them is ever changed. Raises `ForkError` for a world whose callbacks leave the process, and
    `StoreError` inside a commit.
    """
    if world.external_transport is not None:
        raise ForkError(
            "this world's callbacks go out to the network, and an answer comes back to one world only: fork a Sandbox"
        )
    with world.lock, gc_paused():
        tables = {name: state for name, state in world.store.snapshot().items() if name not in _OWN_TABLES}
        made = World(
            replace(world.config, rate=world.clock.rate),
            Store.from_snapshot(tables),
            control_handlers=world.control_handlers,
            public_url=world.public_url,
            label=label,
            beside=world,
        )
        made.journal.follow(world.journal)
        _stand(made, _present(world))
        if world.engine is not None:
            _go_on_with_network(made, _network(world))
    if reseed is not None:
        made.streams.reseed(reseed)
        if made.engine is not None:
            made.engine.now = max(made.engine.now, made.clock.now())  # what was seen of the network so far stays so
            made.engine.reseed(reseed, made.streams.secret)
    return made


def dump_world(world: World) -> dict[str, Any]:
    """Everything about a world as JSON values, for `world_from`."""
    with world.lock:
        return {
            "format": FORMAT,
            "label": world.label,
            "plan": _written_plan(world.config),
            "tables": {
                name: {"made": table.exists, "next": table.next_id, "rows": [list(pair) for pair in table.rows.items()]}
                for name, table in world.store.snapshot().items()
                if name not in _OWN_TABLES
            },
            "journal": world.journal.snapshot(),
            "network": _network(world),
            **_present(world),
        }


def restore_world(
    snapshot: Mapping[str, Any],
    *,
    control_handlers: Callable[[World], Iterable[object]] | None = None,
    label: str | None = None,
) -> World:
    """The world that `written` wrote down, as it stood; it goes on in memory and in this process.

    Raises `ForkError` for what is no snapshot, and for one of another format.
    """
    if "format" not in snapshot:
        raise ForkError("this is no saved sandbox: give what `snapshot()` returned, or a file that `save()` wrote")
    if snapshot["format"] != FORMAT:
        raise ForkError(
            f"this case has format {snapshot['format']!r} and only {FORMAT} is read here: open it with the Leyden "
            "that saved it, or make it anew from its script"
        )
    states = {
        name: TableSnapshot(dict(table["rows"]), table["next"], table["made"], None, {}, {})
        for name, table in snapshot["tables"].items()
    }
    world = World(
        _read_plan(snapshot["plan"]),
        Store.from_snapshot(states),
        control_handlers=control_handlers,
        public_url=LOCAL_URL,
        label=snapshot["label"] if label is None else label,
    )
    world.journal.restore(snapshot["journal"])
    _stand(world, snapshot)
    if snapshot.get("network") is not None:
        _go_on_with_network(world, snapshot["network"])
    return world


def _present(world: World) -> dict[str, Any]:
    """All that is neither a row nor an entry of the journal."""
    return {
        "clock": world.clock.snapshot(),
        "luck": list(world.streams.reseeds),
        "streams": world.streams.snapshot(),
        "callbacks": world.service.outbox.snapshot(),
        "requests": world.service.pipeline.request_count,
    }


def _stand(world: World, present: Mapping[str, Any]) -> None:
    """Bring a world that was just made, over rows that are there already, to where `present` was taken."""
    for luck in present["luck"]:
        world.streams.reseed(luck)
    world.streams.restore(present["streams"])
    world.clock.restore(present["clock"])
    world.service.outbox.restore(present["callbacks"])
    world.service.pipeline.request_count = present["requests"]


def _network(world: World) -> dict[str, Any] | None:
    if world.engine is None:
        return None
    from leyden.lightning.payer.routed_payments import RoutedPayments

    assert isinstance(world.payments, RoutedPayments)
    return world.payments.snapshot()


def _go_on_with_network(world: World, saved: Mapping[str, Any] | None) -> None:
    from leyden.lightning.payer.routed_payments import RoutedPayments

    assert isinstance(world.payments, RoutedPayments)
    assert saved is not None
    world.payments.restore(saved, world.streams.secret)


def _written_plan(plan: WorldConfig) -> dict[str, Any]:
    contract = plan.contract
    return {
        "seed": plan.seed,
        "given_seed": plan.given_seed,
        "start_ms": plan.start_ms,
        "api_key": plan.api_key,
        "project": plan.project,
        "keep": plan.keep,
        "mock_unbound": plan.mock_unbound,
        "control": plan.control is not None,
        "network": plan.network_json(),
        "overlays": list(contract.overlays),
        # The packaged spec is known by its overlays; any other travels along, so that the case can be opened anywhere.
        "spec": None if _is_packaged(contract) else contract.document,
    }


def _read_plan(saved: Mapping[str, Any]) -> WorldConfig:
    overlays = tuple(saved["overlays"])
    if saved["spec"] is None:
        contract = packaged_contract("charges", overlays)
    else:
        contract = load_contract(saved["spec"], mock_unbound=saved["mock_unbound"], known_as="charges.openapi.yaml")
        contract = contract._replace(overlays=overlays)
    return WorldConfig(
        contract=contract,
        network=chosen_network(saved, None),
        control=partial(packaged_contract, "sandbox") if saved["control"] else None,
        seed=saved["seed"],
        given_seed=saved["given_seed"],
        start_ms=saved["start_ms"],
        api_key=saved["api_key"],
        project=saved["project"],
        keep=saved["keep"],
        mock_unbound=saved["mock_unbound"],
    )


def _is_packaged(contract: Contract) -> bool:
    if contract.mock_unbound or not set(contract.overlays) <= set(known_overlays()):
        return False
    packaged = packaged_contract("charges", contract.overlays)
    return packaged is contract or packaged.document == contract.document
