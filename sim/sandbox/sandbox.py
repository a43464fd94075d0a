"""The sandbox: the whole service and its world in one object, with time in your hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from leyden.callbacks.receivers import Receiver
from leyden.devserver.control.handlers import control_handlers
from leyden.lab.action_log import History, as_json
from leyden.lab.traffic import Traffic, traffic
from leyden.sandbox.collections import Collection, Crowd, FaultList, Shop
from leyden.sandbox.requests import Asking
from leyden.sandbox.resources import Charge, StaticCharge
from leyden.sandbox.time_control import Instant, Moving, instant_ms
from leyden.sandbox.views import Looking
from leyden.sandbox.wallet import Wallet
from leyden.server.contract.types import Contract
from leyden.server.errors import StoreError
from leyden.server.store.store import Store
from leyden.server.timestamps import to_iso
from leyden.server.version import VERSION
from leyden.world.config import WorldConfig, chosen_network, world_config
from leyden.world.process_clock import first_instant, process_clock, sync_to_process
from leyden.world.snapshots import ForkError, dump_world, fork_world, restore_world
from leyden.world.world import World

if TYPE_CHECKING:
    from leyden.lightning.network.network import Network
    from leyden.lightning.topology.graph import Graph


class Sandbox(Asking, Moving, Looking):
    """A charge service with its Lightning node, payers, receivers and clock.

    Nothing happens until time moves: `run`, `advance`, `advance_to`, `step`. Everything is decided by `seed` (default
    0), `start` and what you do, so the same lines give the same ids, invoices and journal anywhere.

    `data` is a directory to keep everything in (default: memory only). One that a sandbox was kept in before is gone on
    with, from the instant at which it was left; its seed, start and network are its own, and `StoreError` is raised for
    other ones. `spec` is a path to another `charges.openapi.yaml`, `overlays` are names from `specs/overlays` or paths.
    `network` is the depth of the simulated Lightning network: `direct` (the default) puts every payer one step from the
    node; `scale-free:400`, `hub:50`, `line:4`, `star:12` or a `leyden.lightning.topology.graph.Graph` let every payment
    travel over channels. `label` is the column `world` of every table. `clock="process"` lets time pass with the
    process's clock, which freezegun may freeze and move: see `leyden.world.process_clock`.
    """

    def __init__(
        self,
        seed: int | None = None,
        start: Instant | None = None,
        *,
        data: str | Path | None = None,
        spec: str | Path | Contract | None = None,
        overlays: Sequence[str | Path] = (),
        network: str | Graph | None = None,
        api_key: str = "leyden",
        clock: str = "virtual",
        label: str = "main",
    ) -> None:
        if isinstance(overlays, str):
            raise TypeError(f"overlays={overlays!r} is one name: write overlays=[{overlays!r}]")
        start_ms = None if start is None else instant_ms(start)
        wall = process_clock(clock, start)
        store = Store.memory() if data is None else Store.open(Path(data))
        try:
            saved = World.saved(store)
            if saved is not None and seed not in (None, saved["given_seed"]):
                raise StoreError(f"{data} was begun with seed {saved['given_seed']}: leave seed out, or use a new data")
            if saved is not None and start_ms not in (None, saved["given_start"]):
                begun = to_iso(saved["given_start"])
                raise StoreError(f"{data} was begun at start {begun}: leave start out, or use a new data")
            asked = {"seed": seed or 0, "given_seed": seed or 0, "start": start_ms, "given_start": start_ms}
            begun_with: Mapping[str, Any] = saved or asked
            plan = world_config(
                seed=begun_with["seed"],
                given_seed=begun_with["given_seed"],
                start_ms=first_instant(begun_with["start"], wall),
                given_start_ms=begun_with["given_start"],
                spec=spec,
                overlays=overlays,
                api_key=api_key,
                network=chosen_network(saved, network),
                rate=0 if wall is None else 1,
                real_clock=wall,
            )
            world = World(plan, store, control_handlers=control_handlers, label=label)
            if wall is not None:
                sync_to_process(world.clock)
        except BaseException:
            store.close()
            raise
        history = History(_begun(plan, spec, overlays))
        if saved is not None:
            history.forget("it was gone on with from a directory, which does not say what had been done")
        elif isinstance(spec, Contract) or not isinstance(plan.network, str):
            history.forget(
                "it was made with an object that has no name: give the spec as a path, the network as a text"
            )
        self._furnish(world, history)

    def _furnish(self, world: World, history: History) -> None:
        self.world = world
        self.history = history
        self.charges = Collection(self, Charge, "createCharge", "charges")
        self.static_charges = Collection(self, StaticCharge, "createStaticCharge", "static_charges")
        self.faults = FaultList(self)

    @classmethod
    def _of(cls, world: World, history: History) -> Self:
        made = cls.__new__(cls)
        made._furnish(world, history)
        return made

    # The people around the service

    def wallet(self, name: str) -> Wallet:
        """A payer's wallet, made on first use."""
        return Wallet(self, name)

    def traffic(self, rate: str = "30/min", **laws: Any) -> Traffic:
        """Let visitors come from now on, each shown a Charge of its own; `laws` as in `leyden.lab.traffic.traffic`.

        Nobody comes until time moves. Raises `leyden.lab.distributions.DistributionError`.
        """
        with self.history.doing(self.world, "call", call="traffic", args=[rate], named=as_json(laws)) as facts:
            facts["id"] = traffic(self.world, rate, **laws).id
        return Crowd(self, facts["id"])

    def receiver(self, name: str) -> Receiver:
        """The callback receiver that answers for `http://<name>.localhost/...` (or for a whole host name)."""
        return Shop(self, name)

    @property
    def network(self) -> Network:
        """The Lightning network. Raises `ValueError` when payments are direct."""
        world = self.world
        if world.engine is None:
            raise ValueError("payments are direct here: make the sandbox with network='scale-free:400'")
        from leyden.lightning.network.network import Network
        from leyden.lightning.payer.routed_payments import TravellingPayments

        payments = world.payments
        assert isinstance(payments, TravellingPayments)

        @contextmanager
        def doing(call: str, args: list[Any], named: dict[str, Any]) -> Iterator[None]:
            with self.history.doing(world, "call", call=f"network{call}", args=args, named=named), world.exclusive():
                yield

        return Network(payments, doing)

    # What if

    def fork(self, label: str | None = None, *, reseed: int | None = None) -> Sandbox:
        """A sandbox of its own that stands where this one stands: same luck, other decision.

        With `reseed` it has the same past and other luck. Handles lead to the sandbox that made them; by id they are
        found in both: `fork.charges[charge.id]`. Neither changes the other from here on. The fork is kept in memory.
        """
        if label is None:
            label = "fork" if reseed is None else f"luck {reseed}"
        world = fork_world(self.world, label, reseed=reseed)
        history = self.history.fork()
        if reseed is not None:
            history.add("reseed", {"luck": reseed})
        return Sandbox._of(world, history)

    def snapshot(self) -> dict[str, Any]:
        """Everything as JSON values, for `Sandbox.from_snapshot` and `restore`. Raises
        `leyden.world.snapshots.ForkError`.
        """
        return {"leyden": VERSION, **dump_world(self.world), "history": self.history.snapshot()}

    @classmethod
    def from_snapshot(cls, snapshot: Mapping[str, Any], *, label: str | None = None) -> Sandbox:
        """A sandbox that stands where the snapshot was taken. Raises `ForkError` for one of another format."""
        world = restore_world(snapshot, control_handlers=control_handlers, label=label)
        return cls._of(world, History.restored(snapshot.get("history")))

    def restore(self, snapshot: Mapping[str, Any]) -> Sandbox:
        """Stand again where the snapshot was taken; handles of what did not exist then lead nowhere.

        Raises `leyden.world.snapshots.ForkError` for a sandbox that is served or kept in a directory: others rely on
        its time.
        """
        if self._thread is not None or self.world.store.lasts:
            raise ForkError(
                "time does not go back for those who see this sandbox from outside: open the snapshot beside it, with "
                "Sandbox.from_snapshot(...)"
            )
        world = restore_world(snapshot, control_handlers=control_handlers, label=self.label)
        self.world.store.close()
        self.world, self.history = world, History.restored(snapshot.get("history"))
        return self

    def save(self, path: str | Path) -> Path:
        """Write the whole sandbox to a file of JSON, for `Sandbox.load`. Raises `leyden.world.snapshots.ForkError`."""
        path = Path(path)
        path.write_text(json.dumps(self.snapshot()) + "\n", encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: str | Path, *, label: str | None = None) -> Sandbox:
        """The sandbox that was saved, as it stood, in memory. Raises `leyden.world.snapshots.ForkError`."""
        try:
            saved = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ForkError(f"{path} is no saved sandbox ({error}): give a file that `Sandbox.save` wrote") from None
        return cls.from_snapshot(saved, label=label)

    def script(self) -> str:
        """The Python that makes this sandbox anew, as `sb`: same ids, same invoices, same journal, to the byte.

        Raises `leyden.lab.action_log.HistoryError` when what was done to it is not known in full.
        """
        from leyden.lab.script_writer import script_of

        self.history.catch_up(self.world)
        return script_of(self.world, self.history)

    def notebook(self, path: str | Path) -> Path:
        """Write a notebook that tells this sandbox, makes it anew and shows it in tables and pictures, ready to run.

        Raises `leyden.lab.action_log.HistoryError` like `script`.
        """
        from leyden.lab.notebook_writer import as_notebook

        self.history.catch_up(self.world)
        path = Path(path)
        with self.world.exclusive():
            path.write_text(as_notebook(self.world, self.history), encoding="utf-8", newline="\n")
        return path


def _begun(plan: WorldConfig, spec: object, overlays: Sequence[str | Path]) -> dict[str, Any]:
    """The arguments that make a sandbox alike, those left out that are the usual ones."""
    asked: dict[str, Any] = {"seed": plan.seed, "start": to_iso(plan.start_ms)}
    if spec is not None:
        asked["spec"] = str(spec)
    if overlays:
        asked["overlays"] = [str(overlay) for overlay in overlays]
    if plan.network != "direct":
        asked["network"] = str(plan.network)
    if plan.api_key != "leyden":
        asked["api_key"] = plan.api_key
    return asked
