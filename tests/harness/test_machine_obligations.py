"""Obligations of machines that fail and of what is pending at a restart: each finds a mistake of its kind."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from leyden.callbacks.faults.faults import Faults
from leyden.harness.checks import responses
from leyden.harness.control import store_checks
from leyden.harness.engines.obligations import _first_of_each, _ordered
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.obligations.machine.disks import disk_obligations
from leyden.harness.obligations.machine.pending import pending_obligations, pending_table
from leyden.harness.runs.cases import play, read_case
from leyden.harness.targets.disk import CALLS, Disk, Fault
from leyden.lightning.receiver.invoices import Invoices
from leyden.rng import RandomStreams
from leyden.server.charges.charges import ChargeService
from leyden.server.charges.static_charges import StaticChargeService
from leyden.server.errors import StorageUnavailable, TooManyRequests
from leyden.server.http import corrections, idempotency, strict_json
from leyden.server.http.hosts import HostPolicy
from leyden.server.http.idempotency import Idempotency
from leyden.server.http.projects import Projects
from leyden.server.store import compaction, storage
from leyden.server.store.compaction import Compaction
from leyden.server.store.storage import JournalStorage
from tests.support.deep import deep, deep_except, deep_or
from tests.support.obligations import violation_of

# The store


def test_a_sample_of_the_obligations_of_the_store_is_kept() -> None:
    for case in obligation_cases([*disk_obligations()][:: deep_or(bounded=36, full=12)]):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0)


def test_a_short_write_whose_rest_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(fd: int, rest: bytes) -> None:
        if rest.startswith(b'["'):  # not the rest of a line
            compaction.write_all(fd, rest)

    monkeypatch.setattr(storage, "write_all", lost)
    assert violation_of("disk", "none compaction, kill, write 1 short") is not None


def test_a_flush_that_does_not_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(self: JournalStorage) -> None:
        self._synced = self._commits

    monkeypatch.setattr(JournalStorage, "flush", flush)
    assert violation_of("disk", "none compaction, power", "group") is not None


def test_a_flush_that_confirms_what_was_written_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    original = JournalStorage.flush

    def flush(self: JournalStorage) -> None:
        original(self)
        self._synced = self._commits

    monkeypatch.setattr(JournalStorage, "flush", flush)
    assert violation_of("disk", "none compaction, power, fsync", "group") is not None


def test_a_compaction_that_renames_before_it_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    def swap(self: Compaction, target: Path, announce: Callable[[Any], None]) -> int:
        for body, records in self._tail:
            self._add(body, records)
        announce(self.end)
        os.replace(self.path, target)
        os.fsync(self._fd)
        fd, self._fd = self._fd, -1
        return fd

    monkeypatch.setattr(Compaction, "swap", swap)
    assert violation_of("disk", "whole compaction, power", "always") is not None


def test_a_compaction_without_the_commits_of_the_meantime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compaction, "add_commit", lambda self, body, records: None)
    assert violation_of("disk", "gradual compaction, close", "always") is not None


def test_a_compaction_that_leaves_a_row_of_a_step_out(monkeypatch: pytest.MonkeyPatch) -> None:
    original = compaction._pieces

    def pieces(tables: Any) -> Any:
        return original([(table, ids[:127] + ids[128:]) for table, ids in tables])

    monkeypatch.setattr(compaction, "_pieces", pieces)
    assert violation_of("disk", "compaction, close") is not None


def test_a_recovery_whose_directory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    original = store_checks.recover

    def recover(folder: Path) -> Any:
        mark = (folder / store_checks.END_NAME).read_bytes()
        found = original(folder)
        (folder / store_checks.END_NAME).write_bytes(mark)
        return found

    monkeypatch.setattr(store_checks, "recover", recover)
    assert violation_of("disk", "none compaction, recover") is not None


def test_a_refused_commit_that_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    original = JournalStorage.write_commit

    def write_commit(self: JournalStorage, touched: Any) -> None:
        try:
            original(self, touched)
        except StorageUnavailable:
            return

    monkeypatch.setattr(JournalStorage, "write_commit", write_commit)
    assert violation_of("disk", "none compaction, close, write 2 refused") is not None


@pytest.mark.parametrize("call", CALLS)
def test_a_disk_leaves_the_calls_for_other_files_alone(call: str, tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    real = getattr(os, call)
    disk = Disk(own)
    disk.arm(Fault(call, 1, "refused"))
    with disk.in_use():
        fd = os.open(other / "file", os.O_RDWR | os.O_CREAT)
        assert os.write(fd, b"text") == 4
        assert os.pwrite(fd, b"T", 0) == 1
        os.fsync(fd)
        os.ftruncate(fd, 3)
        os.close(fd)
        os.replace(other / "file", other / "renamed")
        assert not disk.failed
    assert (other / "renamed").read_bytes() == b"Tex"
    assert getattr(os, call) is real


# What is pending


@deep("test_other_ways_to_restart")
def test_every_kind_of_pending_thing_continues_after_a_kill() -> None:
    chosen = [one for one in pending_obligations() if one.case.endswith(", kill")]
    assert len(chosen) == len(pending_table())
    for case in obligation_cases(chosen[::3]):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


@pytest.mark.parametrize("how", ["close", "stopped", "process"])
def test_other_ways_to_restart(how: str) -> None:
    chosen = [one for one in pending_obligations() if one.case.endswith(f", {how}")]
    for case in obligation_cases(chosen[:: deep_or(bounded=36, full=12)]):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


def test_timers_of_closed_charges_that_are_not_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ChargeService.resume

    def resume(self: ChargeService) -> None:
        find = self.charges.find
        self.charges.find = lambda name, value: [row for row in find(name, value) if "closed" not in row]  # type: ignore[method-assign,misc,assignment]
        original(self)
        self.charges.find = find  # type: ignore[method-assign]

    monkeypatch.setattr(ChargeService, "resume", resume)
    assert violation_of("pending", "full Static Charge, kill") is not None
    assert violation_of("pending-together", "kill", "Charges") is not None


def test_held_payments_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Invoices.resume
    calls = count()

    def resume(self: Invoices, *given: Any) -> Any:
        set_timers, self.set_hold_timers = self.set_hold_timers, lambda: None  # type: ignore[method-assign]
        next(calls)
        found = original(self, *given)
        self.set_hold_timers = set_timers  # type: ignore[method-assign]
        return found

    monkeypatch.setattr(Invoices, "resume", resume)
    assert violation_of("pending", "held payment, kill") is not None
    assert next(calls)


def test_static_charges_that_do_not_expire_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StaticChargeService, "resume", lambda self: None)
    assert violation_of("pending", "expiry of a Static Charge") is not None


def test_stored_responses_that_end_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    original = idempotency._fingerprint
    monkeypatch.setattr(idempotency, "_fingerprint", lambda body: f"{original(body)[:-8]}{os.getpid():08x}")
    # The other process has the unchanged module, as it would have another seed of its hashes.
    assert violation_of("pending", ", process") is not None


# Values


def test_a_password_in_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrections, "without_passwords", lambda text: text)
    assert violation_of("url", "correct-horse") is not None


@pytest.mark.parametrize(("text", "like"), [("é", "è"), ("é", "e"), ("\U0001f600", "\U0001f601")])
def test_bodies_that_differ_in_characters_beyond_ascii(text: str, like: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = idempotency._fingerprint

    def folded(value: Any) -> Any:
        return value.replace(like, text) if isinstance(value, str) else value

    monkeypatch.setattr(idempotency, "_fingerprint",
                        lambda body: original({name: folded(value) for name, value in body.items()}))  # fmt: skip
    cases = {"è": "text accents", "e": "text dropped", "\U0001f601": "text emoji"}
    if like == "e":
        monkeypatch.setattr(idempotency, "_fingerprint", lambda body: original(
            {name: value.encode("ascii", "ignore").decode() if isinstance(value, str) else value
             for name, value in body.items()}))  # fmt: skip
    assert violation_of("changed-field", cases[like]) is not None


def test_responses_that_are_stored_for_one_key_of_a_project(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Idempotency.recall
    seen: dict[str, int] = {}

    def recall(self: Any, project: str, operation_id: str, key: str) -> Any:
        seen[key] = seen.get(key, 0) + 1
        return None if seen[key] > 1 else original(self, project, operation_id, key)

    monkeypatch.setattr(Idempotency, "recall", recall)
    assert violation_of("by-another-key") is not None


def test_a_depth_that_is_measured_one_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    original = strict_json._deeper_than
    monkeypatch.setattr(strict_json, "_deeper_than", lambda text, limit: original(text, limit - 1))
    assert violation_of("depth+0", "others") is not None


def test_a_host_that_only_ends_like_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    original = HostPolicy.allows
    monkeypatch.setattr(HostPolicy, "allows", lambda self, host: host.endswith("localhost") or original(self, host))
    assert violation_of("host") is not None


def test_a_wait_that_is_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Faults.rate_limit

    def refusal(self: Any, operation_id: str) -> Any:
        found = original(self, operation_id)
        if found is None or found.headers["Retry-After"] == "0":
            return found
        return TooManyRequests(found.detail, headers={"Retry-After": str(int(found.headers["Retry-After"]) - 1)})

    monkeypatch.setattr(Faults, "rate_limit", refusal)
    assert violation_of("retry-after", "1500 ms") is not None


def test_an_lnurl_with_more_padding_than_it_needs() -> None:
    sound = responses.bech32_text("lnurl1d9h8vmmfv3jkghe5zp2hz")
    assert sound is None  # its checksum is wrong
    charset = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
    bits = "".join(f"{byte:08b}" for byte in b"http:")  # five bytes are eight characters
    assert responses.bech32_text(_lnurl(bits, charset)) == "http:"
    assert responses.bech32_text(_lnurl(f"{bits}00000", charset)) is None
    assert responses.bech32_text(_lnurl("".join(f"{byte:08b}" for byte in b"http") + "001", charset)) is None


def _lnurl(bits: str, charset: str) -> str:
    """A text of BIP 173 with these bits, whose checksum is right."""
    places = [int(bits[at : at + 5].ljust(5, "0"), 2) for at in range(0, len(bits), 5)]
    text = [*(ord(c) >> 5 for c in "lnurl"), 0, *(ord(c) & 31 for c in "lnurl"), *places, 0, 0, 0, 0, 0, 0]
    check = 1
    for value in text:
        top, check = check >> 25, (check & 0x1FFFFFF) << 5 ^ value
        for place, part in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= part if top >> place & 1 else 0
    places += [(check ^ 1) >> 5 * (5 - number) & 31 for number in range(6)]
    return "lnurl1" + "".join(charset[place] for place in places)


@pytest.mark.parametrize(
    "step",
    [
        {"do": "store", "policy": "never", "compaction": "none", "how": "close", "count": 1},
        {
            "do": "store",
            "policy": "os",
            "compaction": "none",
            "how": "close",
            "count": 1,
            "fault": ["unlink", 1, "short"],
        },
        {"do": "control_pending", "how": "never", "steps": [], "then": []},
    ],
)
def test_steps_of_another_form_are_refused(step: Any) -> None:
    document = {"leydenCase": 3, "name": "x", "specHash": "", "overlays": [], "seed": 1, "disk": False,
                "start": "2030-01-01T00:00:00.000Z", "steps": [step], "expectation": None,
                "journalHash": None}  # fmt: skip
    with pytest.raises(ValueError, match=r"steps"):
        read_case(document)


@pytest.mark.parametrize("seed", deep_except(range(3), 0))
def test_the_first_obligation_of_a_body_is_sent_to_an_operation_that_reads_it(seed: int) -> None:
    firsts = _first_of_each(all_obligations(), RandomStreams(seed).stream("obligations"))
    chosen = [
        one for one in all_obligations() if one.id in firsts and one.kind in {"content-type", "depth+0", "bytes+0"}
    ]
    assert len(chosen) > 20
    assert all(one.steps[-1]["method"] in {"POST", "PATCH"} for one in chosen)


def test_each_setup_has_cases_in_the_first_part_of_a_run() -> None:
    firsts = _first_of_each(all_obligations(), RandomStreams(1).stream("obligations"))
    cases = _ordered(obligation_cases(all_obligations()), firsts)
    setups = {one.id: one.setup.partition("-changed")[0] for one in all_obligations()}
    asked = [[step["obligation"] for step in case.steps if "obligation" in step] for case in cases]
    assert {setups[ids[0]] for ids in asked[: len(asked) // 2]} == {setups[ids[0]] for ids in asked}


def test_a_secret_of_an_option_that_is_new_at_each_start(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Projects.add

    def add(self: Projects, name: str, key: str, secret: str | None = None) -> Any:
        found = original(self, name, key, secret)
        if secret is not None:
            self.rotate_secret(name, secret)
        return found

    monkeypatch.setattr(Projects, "add", add)
    assert violation_of("secrets", "kill, given") is not None
