"""Opening a sandbox: the world and the action log that its arguments and its directory ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leyden.arguments import (
    NETWORK_FORMS,
    check_milliseconds,
    checked_list,
    checked_path,
    checked_seed,
    checked_start,
    checked_text,
)
from leyden.devserver.control.handlers import control_handlers
from leyden.errors import ArgumentError, StoreError
from leyden.extras import require
from leyden.lab.actions.action_log import ActionLog
from leyden.rng import RandomStreams
from leyden.sandbox.session import Session, is_recorded
from leyden.sandbox.time.spans import Instant, Span, instant_ms
from leyden.server.callbacks.egress import Egress, parse_timeout
from leyden.server.contract.load import is_overlay_name
from leyden.server.contract.types import Contract
from leyden.server.printable import quoted
from leyden.server.store.journal import JOURNAL_NAME, has_journal
from leyden.server.store.store import Store
from leyden.server.timestamps import to_iso
from leyden.world.config import WorldConfig, chosen_network, created_network, read_network, world_config
from leyden.world.persistence.directory_checks import errors_of_directory
from leyden.world.time.clock import LAST_MS
from leyden.world.time.process_clock import first_instant, process_clock, sync_to_process
from leyden.world.trial.trial_requests import try_contract
from leyden.world.world import World

if TYPE_CHECKING:
    from leyden.lightning.engine.condition_texts import ConditionOptions
    from leyden.lightning.topology.graph import Graph


# The name of the directory of a project below the `--data` of a server.
_PROJECT = re.compile(r"[0-9a-f]{16}")


def _check_directory(data: Path) -> None:
    """Raise `StoreError` for a directory of a server, which has those of its projects."""
    found = [] if has_journal(data) else sorted(data.glob(f"*/{JOURNAL_NAME}"))
    projects = [journal.parent for journal in found if _PROJECT.fullmatch(journal.parent.name)]
    if projects:
        raise StoreError(
            f"data={str(data)!r} is the directory of a server, and a sandbox has one of its own: give that of a "
            f"project, such as {str(projects[0])!r}, or another one"
        )


def open_session(
    seed: int | None,
    start: Instant | None,
    data: str | Path | None,
    spec: str | Path | Contract | None,
    overlays: Sequence[str | Path],
    network: str | Graph | None,
    conditions: ConditionOptions | None,
    api_key: str,
    clock: str,
    label: str,
    egress: str | None,
    egress_allow: Sequence[str],
    webhook_secret: str | None,
    callback_timeout: Span | None,
) -> Session:
    """The session for the arguments of `Sandbox`. Raises what `Sandbox` raises; the store is then closed."""
    overlays, egress_allow = checked_list("overlays", overlays), checked_list("egress_allow", egress_allow)
    if network is not None and not isinstance(network, str) and not hasattr(network, "is_drawn"):
        raise ArgumentError(f"network={quoted(network, 60)} is not a network: {NETWORK_FORMS}")
    network = read_network(network, f"network={quoted(network, 60)}")
    if conditions is not None:
        require(f"conditions={quoted(conditions, 60)}", "scipy", "network")
        from leyden.lightning.engine_factory import with_conditions

        if network is not None or data is None:
            network = with_conditions(network, conditions)
    checked_text("label", label)
    checked_text("api_key", api_key)
    if webhook_secret is not None:
        checked_text("webhook_secret", webhook_secret)
    if data is not None:
        checked_path("data", data)
    for name, each in (("spec", spec), *(("overlays", overlay) for overlay in overlays)):
        if each is not None and not isinstance(each, Contract):
            checked_path(name, each)
    seed = None if seed is None else checked_seed(seed)
    Egress(
        "none" if egress is None or is_recorded(egress) else egress, allow=egress_allow
    )  # raises for what is not valid, before a store is opened
    check_milliseconds(start, LAST_MS)
    start_ms = None if start is None else checked_start(instant_ms(start, clamp=True), start)
    real_clock = process_clock(clock, start)
    if data is not None:
        _check_directory(Path(data))
    store = Store.memory() if data is None else Store.open(Path(data))
    try:
        saved = World.saved(store)
        if saved is not None:
            _check_saved(saved, data, seed, start_ms)
        given: Mapping[str, Any] = saved or {
            "seed": seed or 0,
            "given_seed": seed or 0,
            "start_ms": start_ms,
            "given_start_ms": start_ms,
        }
        given_by = "network"
        if conditions is not None:
            from leyden.lightning.engine_factory import with_liquidity_function

            given_by = "conditions" if network is None else "network and conditions"
            if network is None:  # that of the directory, which has to be in these conditions
                with errors_of_directory(store):
                    network = with_conditions(created_network(saved), conditions)
            network = with_liquidity_function(network, conditions, RandomStreams(given["seed"]).secret)
        with errors_of_directory(store):
            network = chosen_network(saved, network, given_by)
        config = world_config(
            seed=given["seed"],
            given_seed=given["given_seed"],
            start_ms=first_instant(given["start_ms"], real_clock),
            given_start_ms=given["given_start_ms"],
            run=given.get("run", 1),
            spec=spec,
            overlays=overlays,
            api_key=api_key,
            network=network,
            webhook_secret=webhook_secret,
            callback_timeout_ms=None if callback_timeout is None else parse_timeout(callback_timeout),
            rate=0 if real_clock is None else 1,
            real_clock=real_clock,
        )
        if spec is not None or not all(map(is_overlay_name, overlays)):
            try_contract(config.contract, spec)
        world = World(config, store, control_handlers=control_handlers, label=label)
        if real_clock is not None:
            sync_to_process(world.clock)
    except BaseException:
        store.close()
        raise
    action_log = ActionLog(_arguments(config, spec, overlays))
    if saved is not None:
        action_log.discard("it was reopened from a directory, which does not keep the actions before")
    elif isinstance(spec, Contract) or not config.network_text:
        action_log.discard(
            "it was created with an object: give the spec as a path, the network as a text, liquidity by a name"
        )
    return Session(world, action_log, egress, egress_allow)


def _check_saved(saved: Mapping[str, Any], data: str | Path | None, seed: int | None, start_ms: int | None) -> None:
    """Raise `StoreError` when the directory was created with another seed or start than the one given now."""
    if seed not in (None, saved["given_seed"]):
        raise StoreError(f"{data} was created with seed {saved['given_seed']}: leave seed out, or use a new directory")
    if start_ms not in (None, saved["given_start_ms"]):
        created_at = to_iso(saved["given_start_ms"])
        raise StoreError(f"{data} was created with start {created_at}: leave start out, or use a new directory")


def _arguments(config: WorldConfig, spec: object, overlays: Sequence[str | Path]) -> dict[str, Any]:
    """The arguments that create an equal sandbox, without those that have their default. A contract is not one: it has
    its title here."""
    arguments: dict[str, Any] = {"seed": config.seed, "start": to_iso(config.start_ms)}
    if spec is not None:
        arguments["spec"] = spec.title if isinstance(spec, Contract) else str(spec)
    if overlays:
        arguments["overlays"] = [str(overlay) for overlay in overlays]
    if config.network != "direct":
        arguments["network"] = config.network_text or repr(config.network)
    if config.api_key != "leyden":
        arguments["api_key"] = config.api_key
    if config.webhook_secret is not None:
        arguments["webhook_secret"] = config.webhook_secret
    return arguments
