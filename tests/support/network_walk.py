"""A random walk over a world with a network: what its users can do to payments, channels, faults and time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from leyden.devserver.control.handlers import control_handlers
from leyden.lightning.failure_codes import FAILURE_NAMES, POLICY_FAILURES
from leyden.server.errors import LeydenError
from leyden.server.store.end_mark import END_NAME
from leyden.server.store.store import Store
from leyden.server.version import VERSION
from leyden.world.config import world_config
from leyden.world.snapshots.snapshots import dump_world, fork_world, restore_world
from leyden.world.world import World

START_MS = 1_893_456_000_000
DAY_MS = 86_400_000
NETWORKS = ("line:4", "star:6", "hub:6", "hub:12", "hub:30", "scale-free:30")
KEEPS = (None, None, 1, 3)
_HEADERS = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))
_URLS = (None, "http://shop.localhost/paid", "http://other.localhost/paid")
_AMOUNTS = (1, 7, 1_000, 250_000, 40_000_000, 90_000_000, 200_000_000, 450_000_000, 900_000_000)
_PAYERS = ("ana", "bob", "cyd", "dan", "eve")
_OUTCOMES = (*["settle"] * 6, "hold", "hold", "wrong_secret", "underpay", "overpay", "overpay_double", "fail")
_SPANS_MS = (1, 7, 40, 100, 130, 400, 900, 1_000, 2_000, 15_000, 59_000, 60_000, 600_000, 7_200_000, DAY_MS)
_NODES = ("shop", *_PAYERS, "n1", "n2", "n3")
_SERVICE_FAULTS = (
    "error", "connection_reset", "key_in_use", "stale_read", "truncated_body", "unknown_fields", "past_date",
)  # fmt: skip
_FAULTS = ("drop", "duplicate", "duplicate_new_id", "simultaneous", "redeliver", "delay", "reorder", "burst",
           "rate_limit", "bad_signature", "stale_timestamp")  # fmt: skip


def open_world(folder: Path | None, network: str, seed: int, keep: int | None) -> World:
    """A world over a directory (None: in memory): a new one, or the one that was kept there."""
    store = Store.memory() if folder is None else Store.open(folder)
    try:
        saved = World.saved(store) or {"seed": seed, "start_ms": START_MS}
        config = world_config(
            seed=saved["seed"],
            start_ms=saved["start_ms"],
            given_seed=saved.get("given_seed"),
            given_start_ms=saved.get("given_start_ms"),
            run=saved.get("run", 1),
            network=network,
        )
        return World(replace(config, keep=keep, keep_ended=keep), store, control_handlers=control_handlers)
    except BaseException:
        store.close()
        raise


def state_of(world: World) -> dict[str, Any]:
    """The whole state that a directory keeps: all rows but the journal's, the network, time and timers."""
    dumped = dump_world(world)
    network = dict(dumped["network"])
    network["mission_control"] = [
        [payer, oldest, sorted(bounds)] for payer, oldest, bounds in network["mission_control"]
    ]
    return {
        "tables": {name: sorted(table["rows"]) for name, table in dumped["tables"].items() if table["rows"]},
        "network": network,
        "now": dumped["clock"]["now"],
        "timers": sorted((due, kind, key) for due, _, _, kind, key in dumped["clock"]["timers"]),
        "streams": dumped["streams"],
    }


class NetworkWalk:
    """A walk of one seed. With `folder` the world is kept there, and can be reopened; without, it can be replaced by a
    fork. `conditions` are those of the network. `actions` are the actions so far."""

    def __init__(self, seed: int, folder: Path | None, conditions: str = "") -> None:
        self.rng = Random(seed)
        self.folder = folder
        self.network = self.rng.choice(NETWORKS) + (f",{conditions}" if conditions else "")
        self.keep = self.rng.choice(KEEPS)
        self.world = open_world(None if folder is None else folder / "kept", self.network, seed, self.keep)
        self.actions: list[object] = [(seed, self.network, self.keep, folder is not None)]
        self._copies = 0

    def close(self) -> None:
        """Close the store."""
        self.world.store.close()

    # Actions

    def act(self) -> None:
        """Do one action at random, then move time by a little, or a lot."""
        rng = self.rng
        self._do(rng.choices(*zip(*self._choices(), strict=True))[0])
        if rng.random() < 0.6:
            self._move_time()

    def _choices(self) -> Sequence[tuple[Callable[[], object], float]]:
        memory = self.folder is None
        return [
            (self._pay, 8), (self._pay_again, 2), (self._fail_charge, 3), (self._decide, 3), (self._move_time, 4),
            (self._intercept, 3), (self._balance, 1), (self._channel, 1), (self._payer, 1), (self._fault, 1),
            (self._service_fault, 1), (self._script, 1), (self._traffic, 0.3), (self._reset, 0.2),
            (self._restore, 0.3), (self._static, 0.6), (self._clear, 0.5), (self._replay, 0.3),
            (self._rollback, 0.5), (self._fork if memory else self._reopen, 1),
        ]  # fmt: skip

    def _do(self, action: Callable[[], object]) -> None:
        with suppress(LeydenError, ValueError):
            action()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send one request; the JSON of its answer, None for a refusal."""
        self.actions.append((method, path, body))
        content = b"" if body is None else json.dumps(body).encode()
        response = self.world.request(method, path, _HEADERS, content)
        assert response.status != 500, (response.body, self.actions[-1])
        try:
            return json.loads(response.body) if response.status < 300 and response.body else None
        except ValueError:  # a service fault
            return None

    def _pick(self, table: str) -> Any:
        rows = [*self.world.store.table_data(table).rows.values()]
        # The last ones are still open.
        return self.rng.choice(rows[-6:]) if rows else {"id": "none", "payment_hash": "none", "request": "none"}

    def _create(self) -> None:
        rng = self.rng
        body: dict[str, Any] = {
            "amount": str(rng.choice(_AMOUNTS)),
            "description": "tea",
            "expiresIn": rng.choice([1, 5, 60, 60, 600, 90_000]),
        }
        if (url := rng.choice(_URLS)) is not None:
            body["callbackUrl"] = url
        self.ask("POST", "/v0/charges", body)

    def _pay(self) -> None:
        self._create()
        self._start(self._pick("charges")["request"])

    def _pay_again(self) -> None:
        self._start(self._pick("charges")["request"])

    def _start(self, request: str) -> None:
        rng = self.rng
        parts = rng.choice([1, 1, 1, 2, 3, 16])
        facts: dict[str, Any] = {
            "payer": rng.choice(_PAYERS),
            "outcome": rng.choice([*_OUTCOMES, "incomplete"] if parts > 1 else _OUTCOMES),
            "delay_ms": rng.choice([0, 0, 0, 1, 900, 59_000, 60_000]),
            "parts": parts,
            "gap_ms": rng.choice([0, 0, 100, 30_000]),
            "patience_ms": rng.choice([None, 0, 1, 500, 60_000, 60_000]),
            "cltv_blocks": rng.choice([None, None, None, 0, 1, 18, 2_016]),
            "amount_msat": rng.choice([None, None, None, 5_000, 800_000_000]),
            "scheduled": rng.random() < 0.5,
        }
        self.actions.append(("pay", request[:30], facts))
        with self.world.exclusive():
            self.world.payments.pay(request, **facts)

    def _fail_charge(self) -> None:
        self.ask("POST", f"/sandbox/v1/charges/{self._pick('charges')['id']}/fail", {})

    def _decide(self) -> None:
        self.ask("POST", f"/sandbox/v1/payments/{self._pick('payments')['id']}/{self.rng.choice(['settle', 'cancel'])}")

    def _move_time(self) -> None:
        rng, clock, due = self.rng, self.world.clock, self.world.clock.next_due()
        if due is not None and rng.random() < 0.4:
            to_ms = due + rng.choice([-1, 0, 0, 1])
            self.actions.append(("advance_to", to_ms))
            self.world.move(lambda clock: clock.advance_to(max(to_ms, clock.now())))
        elif rng.random() < 0.3:
            count = rng.randint(1, 5)
            self.actions.append(("run_events", count))
            self.world.move(lambda clock: clock.run_events(count))
        else:
            by_ms = rng.choice([*_SPANS_MS, *_SPANS_MS[:8], rng.randint(1, 3_000), rng.randint(1, 30 * DAY_MS)])
            self.actions.append(("advance", by_ms))
            self.world.move(lambda clock: clock.advance(by_ms))
        assert clock is self.world.clock

    def _intercept(self) -> None:
        rng = self.rng
        kind = rng.choice(["delay", "fail", "fail", "drop", "offline"])
        body: dict[str, Any] = {"kind": kind}
        if kind == "fail":
            body["code"] = rng.choice([*FAILURE_NAMES, *POLICY_FAILURES, *POLICY_FAILURES])
        elif kind == "delay":
            body["delay"] = rng.choice(["1ms", "300ms", "7s", "1h"])
        elif kind == "offline":
            body["node"] = rng.choice(_NODES)
        if kind != "offline":
            body["hop"] = rng.choice([0, 1, 1, 2, -1, -1, -2])
        if rng.random() < 0.85:
            body["times"] = rng.randint(1, 4)
        if rng.random() < 0.5:
            body["lasting"] = rng.choice(["1s", "5m"])
        self.ask("POST", "/sandbox/v1/network/interceptors", body)

    def _balance(self) -> None:
        node, rng = self.rng.choice(_NODES), self.rng
        if rng.random() < 0.6:
            body: dict[str, Any] = {"inbound": rng.choice([0, 0.5, 1]), "outbound": rng.choice([0, 0.3, 1])}
            self.ask("POST", f"/sandbox/v1/network/nodes/{node}/drain", body)
        else:
            body = {"amount": str(rng.choice(_AMOUNTS)), "out": rng.choice(_NODES), "into": rng.choice(_NODES)}
            self.ask("POST", f"/sandbox/v1/network/nodes/{node}/rebalance", body)

    def _channel(self) -> None:
        rng, engine = self.rng, self.world.engine
        assert engine is not None
        if rng.random() < 0.5:
            body = {"peer": rng.choice(_NODES), "capacity": str(rng.choice([10_000, 1_000_000_000, 3_000_000_000]))}
            self.ask("POST", f"/sandbox/v1/network/nodes/{rng.choice(_NODES)}/channels", body)
        else:
            self.ask("DELETE", f"/sandbox/v1/network/channels/{rng.randrange(engine.graph.channels)}")

    def _payer(self) -> None:
        rng = self.rng
        body: dict[str, Any] = {"outcome": rng.choice([*_OUTCOMES, "twice", "never"])}
        if body["outcome"] != "never":
            body |= rng.choice([{}, {"delay": "2s"}, {"beforeExpiry": "1s"}, {"afterExpiry": "1s"}])
        self.ask("POST", "/sandbox/v1/payers", {**body, "count": rng.choice([1, 3, None])})

    def _fault(self) -> None:
        self.ask(
            "POST", "/sandbox/v1/faults", {"kind": self.rng.choice(_FAULTS), "count": self.rng.choice([1, 3, None])}
        )

    def _service_fault(self) -> None:
        body = {"kind": self.rng.choice(_SERVICE_FAULTS), "count": self.rng.choice([1, 2])}
        self.ask("POST", "/sandbox/v1/service-faults", body)

    def _script(self) -> None:
        rng = self.rng
        says = [200, 404, 410, 500, "timeout", "reset", "commit_then_500", {"status": 200, "delay": "3s"}]
        self.ask("PUT", "/sandbox/v1/inboxes/shop/script", {"answers": rng.sample(says, 3), "always": rng.choice(says)})

    def _traffic(self) -> None:
        from leyden.lab.traffic import traffic

        self.actions.append(("traffic",))
        traffic(self.world, self.rng.choice(["30/min", "every(2s)"]), count=4, callbackUrl=_URLS[1])

    def _static(self) -> None:
        body = {"minAmount": "1000", "maxAmount": "9000000", "description": "tips", "callbackUrl": _URLS[1]}
        created = self.ask("POST", "/v0/static-charges", body)
        if created is not None and "data" in created:
            order = {"request": created["data"]["invoice"]["request"], "amount": "5000", "payer": "eve"}
            self.ask("POST", "/sandbox/v1/payments", order)

    def _clear(self) -> None:
        for what in self.rng.sample(["payers", "faults", "service-faults"], 2):
            self.ask("DELETE", f"/sandbox/v1/{what}")
        for row in self.world.store.table_data("interceptors").rows.values():
            self.ask("DELETE", f"/sandbox/v1/network/interceptors/{row['id']}")
            break

    def _replay(self) -> None:
        self.ask("POST", f"/sandbox/v1/deliveries/{self._pick('deliveries')['id']}/replay")

    def _reset(self) -> None:
        self.ask("POST", "/sandbox/v1/reset", self.rng.choice([{}, {"seed": 3}, {"start": "2031-02-03T04:05:06.789Z"}]))

    def _restore(self) -> None:
        snapshots = (self.ask("GET", "/sandbox/v1/snapshots") or {}).get("data", [])
        if snapshots and self.rng.random() < 0.6:
            self.ask("POST", "/sandbox/v1/restore", {"snapshot": self.rng.choice(snapshots)["id"]})
        else:
            self.ask("POST", "/sandbox/v1/snapshots", {})

    def _rollback(self) -> None:
        self.actions.append(("rollback",))
        with suppress(_RolledBackError), self.world.exclusive():
            self._decide_inside()
            raise _RolledBackError

    def _decide_inside(self) -> None:
        with suppress(LeydenError, ValueError):
            self.world.payments.pay(self._pick("charges")["request"], payer="dan", parts=2)
            self.world.payments.cancel(self._pick("payments")["id"])

    def _fork(self) -> None:
        reseed = self.rng.choice([None, self.rng.randrange(1_000)])
        self.actions.append(("fork", reseed))
        self.world = fork_world(self.world, "fork", reseed=reseed)

    def _reopen(self) -> None:
        assert self.folder is not None
        self.actions.append(("reopen",))
        before = state_of(self.world)
        self.close()
        self.world = open_world(self.folder / "kept", self.network, 0, self.keep)
        assert state_of(self.world) == before

    # Checks

    def check_saved(self, *, and_future: bool) -> None:
        """A saved sandbox opens, and is the same; `and_future`: a day later both are the same, too."""
        world = self.world
        dumped = dump_world(world)
        copy = restore_world(
            json.loads(json.dumps({"leyden": VERSION, **dumped})),
            control_handlers=control_handlers,
            # A server that imports a saved sandbox gives it its own bound.
            adapt=lambda config: replace(config, keep_ended=self.keep),
        )
        assert copy.journal.hash == world.journal.hash
        assert dump_world(copy) == dumped
        if and_future:
            fork = fork_world(world, "fork")
            for each in (fork, copy):
                each.move(lambda clock: clock.advance(DAY_MS))
            assert fork.journal.hash == copy.journal.hash

    def check_directory(self, *, and_future: bool) -> None:
        """The directory opens as after a kill, and is the same; `and_future`: a day later both are the same, too."""
        assert self.folder is not None
        world, folder = self.world, self.folder / f"copy-{self._copies}"
        self._copies += 1
        shutil.copytree(self.folder / "kept", folder)
        for end in folder.rglob(END_NAME):
            end.unlink()  # without it every row is checked
        copy = open_world(folder, self.network, 0, self.keep)
        try:
            assert state_of(copy) == state_of(world)
            if and_future:
                fork, past = fork_world(world, "fork"), len(world.journal)
                for each in (fork, copy):
                    each.move(lambda clock: clock.advance(DAY_MS))
                if self.keep is None:
                    entries = fork.journal.entries()[past:]
                    assert [entry[1:] for entry in entries] == [entry[1:] for entry in copy.journal.entries()]
                assert state_of(copy)["network"] == state_of(fork)["network"]
        finally:
            copy.store.close()
            shutil.rmtree(folder)


class _RolledBackError(Exception):
    """Raised to roll a transaction back."""
