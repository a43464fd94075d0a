"""The sandbox: the charge service with its network, payers, receivers and clock as one Python object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from starlette.types import ASGIApp

from leyden.arguments import (
    Spelled,
    checked_path,
    checked_seed,
    checked_text,
    methods_with_hints,
    refuse_copy,
    whole_number,
)
from leyden.callbacks.receiver import Receiver
from leyden.delivery_replays import DeliveryReplays
from leyden.devserver.control.handlers import control_handlers
from leyden.errors import ForkError, NotebookError
from leyden.extras import require
from leyden.files.json_files import shown
from leyden.files.written_files import write_private
from leyden.lab.actions.action_log import ActionLog
from leyden.lab.progress import Progress
from leyden.sandbox.collections import Collection, FaultList, RecordedReceiver, completed_by_value, recorded_network
from leyden.sandbox.http.http_access import HttpAccess
from leyden.sandbox.opening import open_session
from leyden.sandbox.payer_list import PayerList
from leyden.sandbox.request_bytes import Headers
from leyden.sandbox.resources import Charge, StaticCharge
from leyden.sandbox.service_fault_list import ServiceFaultList
from leyden.sandbox.session import Session
from leyden.sandbox.time.guarded import refused_while_moved, without_moves
from leyden.sandbox.time.methods import TimeMethods
from leyden.sandbox.time.scheduled_actions import ScheduledActions
from leyden.sandbox.time.spans import Instant, Span
from leyden.sandbox.traffic_methods import TrafficMethods
from leyden.sandbox.views import Views
from leyden.sandbox.wallet import Wallet
from leyden.server.contract.types import Contract
from leyden.server.version import VERSION
from leyden.world.loopback import LoopbackResponse
from leyden.world.snapshots.snapshot_schema import SAVED_SANDBOX
from leyden.world.snapshots.snapshots import dump_world, fork_world, restore_world, savable
from leyden.world.stored_snapshots import position_of
from leyden.world.world import World

if TYPE_CHECKING:
    import httpx2

    from leyden.lightning.engine.condition_texts import ConditionOptions
    from leyden.lightning.network.network import Network
    from leyden.lightning.topology.graph import Graph


@methods_with_hints
class Sandbox(TimeMethods, TrafficMethods, Views, DeliveryReplays, Spelled):
    """A charge service with its Lightning node, payers, receivers and clock.

    Time moves only by `run`, `advance`, `advance_to` and `step`; `at` and `every` schedule actions. `seed` (a whole
    number from 0 to 9007199254740991; default 0), `start` and the actions on the sandbox determine everything: the same
    lines give the same ids, invoices and journal on every machine. `ValueError` is raised for another seed.

    `data` is a directory to keep everything in (default: memory only), except the event journal, the action log and the
    actions of `at` and `every`, which start anew each time it is opened. A directory that a sandbox was kept in before
    continues at its last instant, with its own seed, start and network; `StoreError` is raised when others are given.
    `spec` is a path to another `charges.openapi.yaml`, `overlays` are names from `specs/overlays` or paths. `network`
    is the depth of the Lightning network: `direct` (the default) puts every payer one hop from the node;
    `scale-free:400`, `hub:50`, `line:4`, `star:12`, a file that LND or Core Lightning printed (`graph.json,shop=ACINQ`)
    or files of CLoTH (see `leyden.lightning.graph_files`) or a `leyden.lightning.topology.graph.Graph` route every
    payment over channels, and need the extra `network`. Their `conditions` (`"ideal"`, `"realistic"`,
    `"uptime=0.9,outage=2h"` or a mapping) are described in `leyden.lightning.engine.condition_texts`: a function among
    them, for `liquidity`, is called once, here, and the sandbox then has no `script`.

    `egress` says where callbacks may go besides the built-in receivers at `<name>.localhost`: `none` (the default)
    nowhere, `loopback` to 127.0.0.0/8 and ::1 (the default of a served sandbox), `public` to public addresses;
    `egress_allow` lists networks, such as `10.0.0.0/8`, that are allowed besides. An attempt that is not allowed ends
    as `blocked`; an allowed one is a real POST, and time waits for its response: for `callback_timeout` at most,
    `"100ms"` to `"60s"` of real time (default: the 15 s of the specification). `webhook_secret` signs the callbacks:
    `whsec_` and 24 to 64 bytes in base64, by default derived from the seed. `label` is the column `world` of every
    table. `clock="process"` follows the process's clock, which freezegun may move: see
    `leyden.world.time.process_clock`.

    `session.respond` and `session.refused` are for scripts. An unknown attribute raises `AttributeError` with the
    nearest name, and any use after `close` raises `ClosedError`. A sandbox is copied by `fork` and kept by `save`, not
    by `copy` or `pickle`.
    """

    _fields = frozenset(
        {"_actions", "_charges", "_faults", "_http", "_payers", "_service_faults", "_static_charges", "session"}
    )
    __reduce_ex__ = refuse_copy

    def __init__(
        self,
        seed: int | None = None,
        start: Instant | None = None,
        *,
        data: str | Path | None = None,
        spec: str | Path | Contract | None = None,
        overlays: Sequence[str | Path] = (),
        network: str | Graph | None = None,
        conditions: ConditionOptions | None = None,
        api_key: str = "leyden",
        clock: str = "virtual",
        label: str = "main",
        egress: str | None = None,
        egress_allow: Sequence[str] = (),
        webhook_secret: str | None = None,
        callback_timeout: Span | None = None,
    ) -> None:
        self._attach(
            open_session(
                seed, start, data, spec, overlays, network, conditions, api_key, clock, label, egress, egress_allow,
                webhook_secret, callback_timeout,
            )
        )  # fmt: skip

    def _attach(self, session: Session) -> None:
        self.session = session
        self._http = HttpAccess(session)
        self._actions = ScheduledActions().beside(session.world)
        self._charges = Collection(session, Charge, "createCharge", "charges")
        self._static_charges = Collection(session, StaticCharge, "createStaticCharge", "static_charges")
        self._faults = FaultList(session)
        self._payers = PayerList(session)
        self._service_faults = ServiceFaultList(session)

    @classmethod
    def _of(cls, world: World, action_log: ActionLog) -> Self:
        new = cls.__new__(cls)
        new._attach(Session(world, action_log, "none"))  # not the default: `serve` would post again what is due
        return new

    @property
    def action_log(self) -> ActionLog:
        """The actions on this sandbox, which `script` writes as Python."""
        _ = self.world  # raises for a closed sandbox
        return self.session.action_log

    @property
    def label(self) -> str:
        """The name of this sandbox in tables."""
        return self.world.label

    @property
    @completed_by_value
    def charges(self) -> Collection:
        """All Charges: `create(...)`, `[id]`, iteration in order of creation, and `table`."""
        return self._charges

    @property
    @completed_by_value
    def static_charges(self) -> Collection:
        """All Static Charges: as `charges`."""
        return self._static_charges

    @property
    def faults(self) -> FaultList:
        """The injected faults of callbacks: `faults.add("drop")`."""
        return self._faults

    @property
    def service_faults(self) -> ServiceFaultList:
        """The injected faults of the service itself: `service_faults.add("error", status=429)`."""
        return self._service_faults

    # Payers, receivers and the network

    @property
    def payers(self) -> PayerList:
        """The payers that pay by themselves: `payers.add(delay="2s")`."""
        return self._payers

    def wallet(self, name: str) -> Wallet:
        """The wallet of the payer with this name. Raises `ValueError` for a name that is blank or no text."""
        _ = self.world
        return Wallet(self.session, name)

    def receiver(self, name: str) -> Receiver:
        """The built-in callback receiver at `http://<name>.localhost/...`. Raises `ValueError` for a name that no host
        can have: its parts between dots are 1 to 63 letters, digits, `-` and `_`."""
        return RecordedReceiver(self.session, name)

    @property
    def network(self) -> Network:
        """The Lightning network. Raises `ValueError` when payments are direct."""
        return recorded_network(self.session)

    def set_egress(self, egress: str | None = None, egress_allow: Sequence[str] = ()) -> Self:
        """From now on callbacks may go where this mode and these networks say; both as for `Sandbox`. Without `egress`
        the mode stays as it is; `egress_allow` replaces the former networks, also when it is empty. A callback that is
        in flight already keeps its response, and time waits for it. One that was blocked before is sent by
        `replay_delivery`. The sandboxes that `serve` creates over HTTP follow this policy, too."""
        self.session.set_egress(egress, egress_allow)
        return self

    # Requests

    def ask(self, method: str, target: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request with the sandbox's API key and return the JSON of its response. Raises `ApiError` for any
        status but 2xx."""
        return self.session.ask(method, target, body)

    def request(
        self,
        method: str,
        target: str,
        body: Mapping[str, Any] | bytes | None = None,
        headers: Headers | None = None,
    ) -> LoopbackResponse:
        """Send one request and return its response, whatever its status.

        `target` is the path with its query, percent-encoded; a `bytes` body is sent as it is. Without `headers` the API
        key is sent, and the content type JSON if there is a body; with `headers` exactly these are sent.
        """
        return self.session.request(method, target, body, headers)

    def path(self, operation_id: str) -> str:
        """The path template of an operation, as the specification in use has it."""
        return self.session.path(operation_id)

    @property
    def api_key(self) -> str:
        """The newest API key of the sandbox's project."""
        return self.session.api_key

    @property
    def app(self) -> ASGIApp:
        """The ASGI application, for test tools that take one."""
        _ = self.world
        return self._http.app

    @property
    def http(self) -> httpx2.Client:
        """An HTTP client with the API key set, whose requests stay in the process."""
        return self._http.client()

    def serve(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Serve HTTP on a thread beside this program and return the base URL; port 0 takes a free port.

        A sandbox that is served already keeps its URL. Its clock stays paused: a request is answered when what was due
        before it has run, and what it made due. So what this program makes due, such as a payment without a delay,
        waits for the next request or for `run()`. From now on callbacks also go to the receivers of this machine,
        unless `egress` or `set_egress` names others, or the sandbox is a fork, loaded or from a script: these send
        nothing before `set_egress`. The server also creates further sandboxes (`POST /sandbox/v1/sandboxes`, `fork`),
        which end with this one, follow its egress policy and are not in its script. Raises `ListenError` when the port
        is in use, and where other machines would reach a sandbox with the default key.
        """
        checked_text("host", host)
        return self._http.serve(host, whole_number("port", port))

    def close(self) -> None:
        """Stop the server, cancel callbacks in flight and close the store. Any later use raises `ClosedError`, except
        `close` and the repr. So does a move of time that another thread has started: it ends between two events, and
        nothing is posted after `close` has returned. A `Kpi` that was taken before keeps the last figures.

        The server of the fixture `leyden_server` goes on for the next test; until then it answers 503.
        """
        self._http.close()
        self.session.close()

    def __enter__(self) -> Self:
        _ = self.world
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # Forks, snapshots and scripts

    @refused_while_moved
    def fork(self, label: str | None = None, *, reseed: int | None = None) -> Sandbox:
        """An independent copy, kept in memory: the same random numbers, for a different action.

        With `reseed` it has the same past and other random numbers. It has the responses of the callbacks that were
        sent, and sends nothing to the network before `set_egress`. A Charge or Payment object belongs to the sandbox
        that created it; its id is found in both: `fork.charges[charge.id]`. Raises `ClockError` as `snapshot`.
        """
        reseed = None if reseed is None else checked_seed(reseed)
        if label is None:
            label = "fork" if reseed is None else f"seed {reseed}"
        checked_text("label", label)
        with self.session.progress.shown("fork"):
            world = fork_world(self.world, label, reseed=reseed)
            action_log = self.action_log.fork()
        if reseed is not None:
            action_log.add("reseed", {"seed": reseed})
        fork = Sandbox._of(world, action_log)
        fork._actions = self._actions.copy().beside(world)
        return fork

    @refused_while_moved
    def snapshot(self) -> dict[str, Any]:
        """The whole sandbox as JSON values, for `Sandbox.from_snapshot` and `restore`. Raises `ForkError`, and
        `ClockError` while another thread moves time, as `fork`, `save`, `script` and `notebook` do."""
        found = {"leyden": VERSION, **dump_world(self.world), "action_log": self.action_log.snapshot()}
        self._actions.snapshot_taken(position_of(found))
        return found

    @classmethod
    def from_snapshot(cls, snapshot: Mapping[str, Any], *, label: str | None = None) -> Sandbox:
        """A new sandbox in the state of a snapshot; it sends nothing to the network before `set_egress`.

        Warns about one of another version. Raises `ForkError` for an unknown format, and for what no sandbox wrote.
        """
        return cls._restored(snapshot, label, "the snapshot")

    @classmethod
    def _restored(cls, snapshot: Mapping[str, Any], label: str | None, where: str) -> Sandbox:
        world = restore_world(snapshot, control_handlers=control_handlers, label=label, where=where)
        return cls._of(world, ActionLog.from_snapshot(snapshot, where))

    @without_moves
    def restore(self, snapshot: Mapping[str, Any]) -> Sandbox:
        """Return this sandbox to the state of a snapshot; objects created after it are not found any more. The actions
        of `at` and `every` that were ahead at a snapshot of this sandbox are ahead again, unless they were cancelled.
        Those that were scheduled later stay if they are ahead. The same holds for `POST /sandbox/v1/restore`.

        The sandbox keeps its egress policy: what it does again after that, it also posts again. Raises `ClockError`
        while time is moved, except in an action of `at`. Raises `ForkError` for a sandbox that is served (by `serve` or
        by the fixture `leyden_server`) or kept in a directory: its users rely on its time. It returns to a snapshot of
        its own by requests: `POST /sandbox/v1/snapshots`, then `restore`.
        """
        if self._http.is_served or self.world.store.is_durable:
            raise ForkError(
                "a sandbox that is served or kept in a directory takes no snapshot from outside: open the snapshot as a"
                " second sandbox, with Sandbox.from_snapshot(...), or return to one of its own, with"
                ' ask("POST", "/sandbox/v1/restore", ...)'
            )
        world = restore_world(snapshot, control_handlers=control_handlers, label=self.label)
        action_log = ActionLog.from_snapshot(snapshot)
        world.request_log, world.snapshots = self.world.request_log, self.world.snapshots
        world.removed.continue_from(self.world.removed, is_return=True)
        self.world.store.close()
        self.session.replace(world, action_log)
        self._actions.beside(world).returned_to(position_of(snapshot))
        return self

    @refused_while_moved
    def save(self, path: str | Path) -> Path:
        """Write a snapshot to a JSON file, for `Sandbox.load`. Raises `ForkError`, also for a sandbox of a directory in
        which somebody changed a row: `load` would refuse the file. The error names the row.

        The file has the API keys and the webhook secrets, so only its owner may read it (0600)."""
        path = checked_path("path", path)
        with self.session.progress.shown("save"):
            text = json.dumps(savable(self.world, self.snapshot())) + "\n"
            try:
                write_private(path, text)
            except OSError as error:
                raise ForkError(f"{shown(path)} cannot be written: {error.strerror}; choose another path") from None
        return Path(path)

    @classmethod
    def load(cls, path: str | Path, *, label: str | None = None) -> Sandbox:
        """`from_snapshot` of a file that `save` wrote. Raises `ForkError` for any other file, and without one."""
        with Progress().shown("load"):
            return cls._restored(SAVED_SANDBOX.load(checked_path("path", path)), label, shown(path))

    @refused_while_moved
    def script(self) -> str:
        """The Python program that creates this sandbox again, as `sb`, with the same ids, invoices and journal.

        Callbacks that are in flight on the network are waited for. The program gives each attempt its recorded response
        and signed timestamp and sends nothing; what its sandbox does after its last line is blocked until `set_egress`.
        Raises `ActionLogError`, with the reason, when the action log is incomplete: after a change that the disk
        refused (507), for example, or when a callback in flight was cancelled.
        """
        from leyden.lab.actions.script_writer import script_of

        with self.world.lock:
            self.session.complete_log()
            return script_of(self.world, self.action_log)

    @refused_while_moved
    def notebook(self, path: str | Path) -> Path:
        """Write a notebook that describes this sandbox, creates it again and shows tables and drawings. Needs nbformat.

        The file has the API keys and the webhook secrets, so only its owner may read it (0600). Raises `ActionLogError`
        as `script` does, `NotebookError` for a file that cannot be written.
        """
        require("sb.notebook()", "nbformat", "lab")
        from leyden.lab.notebook_writer import as_notebook

        path = checked_path("path", path)
        with self.world.lock:
            self.session.complete_log()
            text = as_notebook(self.world, self.action_log)
        try:
            write_private(path, text)
        except OSError as error:
            raise NotebookError(f"{shown(path)} cannot be written: {error.strerror}; choose another path") from None
        return path
