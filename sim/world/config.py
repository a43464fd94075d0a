"""The configuration of a world: from the options of a user (a seed, a spec, overlays) to compiled contracts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leyden.api_client.served_document import JSON
from leyden.errors import GraphError
from leyden.extras import require
from leyden.repr_tables import counted
from leyden.server.callbacks.signing import check_secret
from leyden.server.contract.load import default_spec, is_overlay_name, known_overlays, load_contract
from leyden.server.contract.paths import path_values
from leyden.server.contract.types import Contract, Operation
from leyden.server.errors import StoreError
from leyden.server.one_at_a_time import one_at_a_time

if TYPE_CHECKING:
    from leyden.lightning.payer.payer_rules import PayerSpec
    from leyden.lightning.topology.graph import Graph

# Paths of a server, besides the operations of its document.
HEALTH_PATH, READY_PATH = "/healthz", "/readyz"
SERVER_DOCUMENT_PATH, SERVER_DOCS_PATH = "/sandbox/v1/server/openapi.json", "/sandbox/v1/server/docs"
_SERVER_PATHS = (HEALTH_PATH, READY_PATH, SERVER_DOCUMENT_PATH, SERVER_DOCS_PATH)
_GRAPH_FILE = re.compile(r"[^,]*\.(?:json|csv)\Z|.*?\.(?:json|csv),", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WorldConfig:
    """The configuration from which a world is built. `control` compiles the contract of its control plane on first use.

    `given_seed` and `given_start_ms` are the user's, where `seed` was derived from it or a reset changed them. `keep`
    bounds the readable journal, `keep_ended` the Charges, payments and callbacks that ended (None: all are kept). `run`
    distinguishes the runs of one sandbox: each reset adds 1. `webhook_secret` is the user's; None: one is derived from
    the seed. `callback_timeout_ms` bounds an attempt on the network; None: the timeout of the spec does. `real_clock`
    gives real milliseconds to a live clock, `clock_offset` how much later the system clock is, and `starts_now` says
    that `start_ms` is its reading: the clock of the run shows real time then, however long the start takes. `payers`
    are the rules of the option `--autopay`, which replace those of an earlier start; None: those in the store stay.
    """

    contract: Contract
    control: Callable[[], Contract] | None
    seed: int = 0
    start_ms: int = 0
    starts_now: bool = False
    rate: float = 0
    api_key: str = "leyden"
    project: str = "default"
    given_seed: int | None = None
    given_start_ms: int | None = None
    run: int = 1
    keep: int | None = None
    keep_ended: int | None = None
    mock_unbound: bool = False
    network: str | Graph = "direct"
    webhook_secret: str | None = None
    callback_timeout_ms: int | None = None
    payers: tuple[PayerSpec, ...] | None = None
    real_clock: Callable[[], int] | None = field(default=None, compare=False)
    clock_offset: Callable[[], int] = field(default=int, compare=False)

    def after(self, former: WorldConfig) -> WorldConfig:
        """This configuration for the run after that of `former`, in the same sandbox."""
        return replace(
            self,
            given_seed=former.seed if former.given_seed is None else former.given_seed,
            given_start_ms=former.start_ms if former.given_start_ms is None else former.given_start_ms,
            run=former.run + 1,
        )

    @property
    def network_text(self) -> str:
        """The network as an option has it; empty for a graph that was not read from a file."""
        return self.network if isinstance(self.network, str) else self.network.text

    def network_json(self) -> Any:
        """The network as JSON values."""
        return self.network if isinstance(self.network, str) else self.network.dump()


def packaged_contract(name: str, overlays: tuple[str | Path, ...] = ()) -> Contract:
    """A document of the package, compiled once per process: contracts are values and never change. A file of an overlay
    is read again when it has changed."""
    return _compiled(name, overlays, tuple(map(_file_version, overlays)))


@one_at_a_time
@lru_cache(maxsize=16)
def _compiled(name: str, overlays: tuple[str | Path, ...], _: tuple[tuple[int, ...], ...]) -> Contract:
    return load_contract(default_spec(name), overlays=overlays)


class SameContract:
    """A contract as a key: equal to itself alone, because documents have no hash."""

    __slots__ = ("contract",)

    def __init__(self, contract: Contract) -> None:
        self.contract = contract

    def __hash__(self) -> int:
        return id(self.contract)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameContract) and other.contract is self.contract


def is_packaged(contract: Contract) -> bool:
    """Whether the contract is the packaged document with packaged overlays."""
    if contract.mock_unbound or not set(contract.overlays) <= set(known_overlays()):
        return False
    packaged = packaged_contract("charges", contract.overlays)
    return packaged is contract or packaged.document == contract.document


def control_contract(service: Contract) -> Callable[[], Contract]:
    """What compiles the document of the control plane beside this service, on its first use. Its Charges are those of
    the service."""
    return partial(_control, SameContract(service))


@one_at_a_time
@lru_cache(maxsize=8)
def _control(service: SameContract) -> Contract:
    packaged = packaged_contract("sandbox")
    if is_packaged(service.contract):
        return packaged
    # Imported here: only an edited service needs it.
    from leyden.world.control_document import with_charges_of

    return with_charges_of(service.contract, packaged)


def body_type(contract: Contract, method: str, target: str) -> bytes:
    """The media type of the body of a request in process: JSON's, unless the document has only others there."""
    path = target.partition("?")[0]
    for operation in _without_json(SameContract(contract)):
        if operation.method == method.lower() and path_values(operation.path, path) is not None:
            assert operation.body is not None
            return operation.body.media_types[0].encode()
    return JSON.encode()


@lru_cache(maxsize=16)
def _without_json(service: SameContract) -> tuple[Operation, ...]:
    """The operations whose body has other media types only."""
    operations = service.contract.operations.values()
    return tuple(one for one in operations if one.body is not None and JSON not in one.body.media_types)


def _file_version(overlay: str | Path) -> tuple[int, ...]:
    """What differs between two files, or two states of a file; empty for a packaged overlay, and where there is no
    file, which `load_contract` refuses."""
    if is_overlay_name(overlay):
        return ()
    try:
        found = os.stat(overlay)
    except (OSError, ValueError):
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def where_is(path: str, *, is_controlled: bool = True) -> str | None:
    """Where a path is served that a sandbox does not have; None for a path that `leyden serve` does not have either.
    `is_controlled` is whether the sandbox has a control plane: only a server leaves it out (`--no-control`)."""
    templates = (*packaged_contract("server").by_path(), *_SERVER_PATHS)
    if any(path_values(each, path) is not None for each in templates):
        if not is_controlled:
            return "a server without --no-control has this path: start `leyden serve` without this option"
        return (
            "a server has this path, and a request in process does not reach it: send it to the URL that"
            " Sandbox.serve() returns, or to that of leyden serve"
        )
    return None


def read_network(network: str | Graph | None, named: str) -> str | Graph | None:
    """The graph that a text names by a file, such as `graph.json` or `channels.csv`; any other network unchanged.
    `named` is how the caller gave it. Raises `GraphError` for a file that is no graph, `MissingExtra` without the extra
    `network`."""
    if not isinstance(network, str) or not _GRAPH_FILE.match(network):
        return network
    require(named, "scipy", "network")
    from leyden.lightning.graph_files import read_graph

    return read_graph(network)


def created_network(saved: Mapping[str, Any] | None) -> str | Graph | None:
    """The network of a saved world; None without one."""
    created = None if saved is None else saved.get("network", "direct")
    return created if created is None or isinstance(created, str) else _graph(created)


def chosen_network(
    saved: Mapping[str, Any] | None, requested: str | Graph | None, given: str = "network"
) -> str | Graph:
    """The network of a new world, or of the saved one; `requested` may be None then.

    Raises `StoreError` when `requested` is not the network with which the directory was created. `given` names the
    arguments that `requested` comes from.
    """
    if saved is None:
        return "direct" if requested is None else requested
    created = saved.get("network", "direct")
    if requested is not None and not _is_same(created, requested):
        named = created if isinstance(created, str) else f"a map of {counted(len(created['names']), 'node')}"
        raise StoreError(f"this directory was created with network {named}: leave {given} out, or use a new directory")
    return created if isinstance(created, str) else _graph(created)


def _is_same(created: Any, requested: str | Graph) -> bool:
    """Whether this is the network with which a directory was created; its file may have another path now."""
    if isinstance(created, str) or isinstance(requested, str):
        return bool(created == requested)
    return {**created, "origin": ""} == {**requested.dump(), "origin": ""}


def _graph(saved: Mapping[str, Any]) -> Graph:
    require("the saved network", "scipy", "network")
    from leyden.lightning.topology.graph import Graph

    try:
        return Graph.load(saved)
    except GraphError as error:
        raise StoreError(f"the table world, row 'config': network: {error}") from None


def world_config(
    *,
    seed: int,
    start_ms: int,
    starts_now: bool = False,
    spec: str | Path | Contract | None = None,
    overlays: Sequence[str | Path] = (),
    api_key: str = "leyden",
    rate: float = 0,
    real_clock: Callable[[], int] | None = None,
    clock_offset: Callable[[], int] = int,
    control: bool = True,
    keep: int | None = None,
    keep_ended: int | None = None,
    mock_unbound: bool = False,
    given_seed: int | None = None,
    given_start_ms: int | None = None,
    run: int = 1,
    network: str | Graph = "direct",
    webhook_secret: str | None = None,
    callback_timeout_ms: int | None = None,
    payers: Sequence[PayerSpec] | None = None,
) -> WorldConfig:
    """Compile the contract and build the configuration.

    Raises `ContractError` when the spec or an overlay is wrong, `ValueError` for a text that is no webhook secret.
    """
    if webhook_secret is not None:
        check_secret(webhook_secret)
    if isinstance(spec, Contract):
        contract = spec
    elif spec is None and not mock_unbound:
        contract = packaged_contract("charges", tuple(overlays))
    else:
        contract = load_contract(spec, overlays=overlays, mock_unbound=mock_unbound, known_as="charges.openapi.yaml")
    return WorldConfig(
        contract=contract,
        control=control_contract(contract) if control else None,
        seed=seed,
        given_seed=given_seed,
        given_start_ms=given_start_ms,
        run=run,
        start_ms=start_ms,
        starts_now=starts_now,
        rate=rate,
        api_key=api_key,
        keep=keep,
        keep_ended=keep_ended,
        mock_unbound=mock_unbound,
        network=network,
        webhook_secret=webhook_secret,
        callback_timeout_ms=callback_timeout_ms,
        payers=None if payers is None else tuple(payers),
        real_clock=real_clock,
        clock_offset=clock_offset,
    )
