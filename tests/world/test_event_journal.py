"""The event journal: entries in order, and a hash that is equal for equal runs."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.errors import ApiError, JournalError
from leyden.server.store.tables.packed import unpack
from leyden.world import event_journal
from leyden.world.event_journal import Entry, HashedEventJournal
from leyden.world.time.clock import VirtualClock

facts = st.dictionaries(
    st.sampled_from(["amount_msat", "why", "parts", "nested"]),
    st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers(), max_size=3),
)
notes = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["paid", "expired"]), st.sampled_from("abc"), facts))


def written(script, *, keep=None, hash_each=False) -> HashedEventJournal:
    clock = VirtualClock(1_000)
    journal = HashedEventJournal(clock, keep=keep)
    for wait, kind, subject, given_facts in script:
        clock.advance(wait)
        journal.note(kind, subject, **given_facts)
        if hash_each:
            assert len(journal.hash) == 64
    return journal


def many(count: int, **how) -> HashedEventJournal:
    return written([(1, "tick" if n % 2 else "tock", str(n % 3), {"n": n}) for n in range(count)], **how)


@given(notes)
def test_the_hash_is_a_chain_over_canonical_json(script):
    journal = written(script)
    link = hashlib.sha256(b"").digest()
    for entry in journal.entries():
        line = json.dumps(list(entry), sort_keys=True, separators=(",", ":")).encode()
        link = hashlib.sha256(link + line).digest()
    assert journal.hash == link.hex()


@pytest.mark.parametrize(
    ("given_facts", "hashed"),
    [
        ({"realTime": ["stamp", "sign"]}, ()),
        ({"secretDependent": ["sign"]}, ("stamp",)),
        ({"realTime": ["stamp"], "secretDependent": ["sign"]}, ()),
        ({"realTime": ["stamp"]}, ("sign",)),  # as earlier versions noted a message to a receiver on the network
        ({}, ("stamp", "sign")),  # and one to a built-in receiver
    ],
    ids=str,
)
def test_the_hash_leaves_out_the_values_that_a_fact_of_the_entry_names(given_facts, hashed):
    headers = {"stamp": "1", "sign": "v1,a"}
    kept = {name: value for name, value in headers.items() if name in hashed}
    journal = written([(1, "fault_hit", "f", {"sent": [{"headers": headers}], "stamp": "2", **given_facts})])
    top = {"stamp": "2"} if "stamp" in hashed else {}
    entry = [1, 1_001, "fault_hit", "f", {"sent": [{"headers": kept}], **top, **given_facts}]
    line = json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()
    assert journal.hash == hashlib.sha256(hashlib.sha256(b"").digest() + line).hexdigest()


@given(notes)
def test_the_hash_does_not_depend_on_when_it_is_computed(script):
    assert written(script).hash == written(script, hash_each=True).hash


@given(notes, notes)
def test_only_equal_runs_have_equal_hashes(one, other):
    first, second = written(one), written(other)
    assert (first.hash == second.hash) == (json.dumps(first.entries()) == json.dumps(second.entries()))


def test_entries_have_time_kind_and_subject():
    clock = VirtualClock(1_000)
    journal = HashedEventJournal(clock)
    assert (len(journal), journal.entries()) == (0, [])
    journal.note("paid", "c1", amount_msat=5)
    clock.advance(250)
    journal.note("expired", "c2")
    assert journal.entries() == [
        Entry(1, 1_000, "paid", "c1", {"amount_msat": 5}),
        Entry(2, 1_250, "expired", "c2", {}),
    ]
    assert len(journal) == 2
    assert "2 entries" in repr(journal)


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1025, 2500])
def test_entries_can_be_read_from_any_position(count):
    journal = many(count)
    everything = journal.entries()
    assert [entry.sequence for entry in everything] == list(range(1, count + 1))
    assert [entry.facts["n"] for entry in everything] == list(range(count))
    for after in (0, 1, 1022, 1023, 1024, 1025, 2047, 2048, 2499, 2500, 9_999):
        assert journal.entries(after=after) == everything[after:]
        assert journal.entries(after=after, limit=1) == everything[after : after + 1]
        assert journal.entries(after=after, limit=3) == everything[after : after + 3]
        assert journal.entries(after=after, limit=0) == []
    assert journal.entries(kind="tick") == [entry for entry in everything if entry.kind == "tick"]
    assert (
        journal.entries(kind="tock", subject="1", limit=2)
        == [entry for entry in everything if entry.kind == "tock" and entry.subject == "1"][:2]
    )


@pytest.mark.parametrize("keep", [0, 1, 1024, 2000])
def test_a_bounded_journal_discards_old_entries_and_keeps_their_hash(keep):
    bounded, whole = many(5_000, keep=keep), many(5_000)
    assert bounded.entries() == whole.entries(after=5_000 - keep)
    assert bounded.dropped == 5_000 - keep
    assert bounded.entries(after=4_990) == whole.entries(after=max(4_990, 5_000 - keep))
    assert bounded.fork(VirtualClock(0)).entries() == bounded.entries()
    assert bounded.hash == whole.hash
    assert len(bounded) == 5_000
    assert bounded.snapshot()["length"] == 5_000


@given(keep=st.integers(0, 2_100), counts=st.lists(st.integers(0, 1_100), max_size=5), undone=st.integers(0, 1_100))
def test_exactly_the_last_entries_of_a_bounded_journal_can_be_read(keep, counts, undone):
    journal, length = HashedEventJournal(VirtualClock(0), keep=keep), 0
    for count in counts:
        journal.begin()
        for n in range(count):
            journal.note("tick", "0", n=n)
        journal.commit()
        journal.begin()
        for n in range(undone):
            journal.note("tock", "0", n=n)
        journal.rollback(ValueError())
        length += count
        assert [entry.sequence for entry in journal.entries()] == list(range(max(0, length - keep) + 1, length + 1))
        assert journal.dropped == max(0, length - keep)
        assert {entry.kind for entry in journal.entries()} <= {"tick"}


@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_a_reader_of_the_journal_reads_each_entry_once_and_comes_to_an_end(limit):
    with Sandbox(seed=7) as sandbox:
        for _ in range(5):
            sandbox.ask("POST", "/v0/charges", {"amount": "1000", "description": "tea"})
        length, digest = len(sandbox.world.journal), sandbox.journal_hash
        read: list[int] = []
        for _ in range(length + 1):
            page = sandbox.ask("GET", f"/sandbox/v1/journal?limit={limit}&after={read[-1] if read else 0}")
            read += [entry["sequence"] for entry in page]
            if not page:
                break
        assert (page, read) == ([], list(range(1, length + 1)))
        assert sandbox.journal_hash == digest
        with pytest.raises(ApiError):
            sandbox.ask("GET", "/sandbox/v1/journal?limit=x")
        assert len(sandbox.world.journal) == length
        sandbox.ask("GET", "/v0/charges")
        assert len(sandbox.world.journal) == length + 1, "a read of the service is an event"


def test_no_read_of_the_control_plane_changes_the_journal():
    with Sandbox(seed=7) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.inbox.localhost")
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("1s")
        digest = sandbox.journal_hash
        reads = {
            operation.path: operation
            for operation in sandbox.world.config.control().operations.values()
            if operation.method == "get"
        }
        assert len(reads) > 15
        known = {
            "/sandbox/v1/payments/{id}": next(iter(sandbox.world.payments.rows))["id"],
            "/sandbox/v1/deliveries/{id}": sandbox.ask("GET", "/sandbox/v1/deliveries")["data"][0]["id"],
            "/sandbox/v1/inboxes/{name}": "shop.inbox",
            "/sandbox/v1/requests/{id}": "1",
        }
        for path in reads:
            for name in ("nothing", known.get(path, "x")):
                sandbox.http.get(path.replace("{id}", name).replace("{name}", name))
        assert sandbox.journal_hash == digest


def test_the_garbage_collector_has_nothing_to_visit_for_an_entry():
    journal = many(1)
    kind = "entry.of.this.test"  # other threads make objects meanwhile, and none of them refers to this text

    def holders() -> list[type]:
        return [type(one) for one in gc.get_objects() if any(held is kind for held in gc.get_referents(one))]

    before = len(holders())
    for number in range(100):
        journal.note(kind, str(number), amount_msat=number, why=None)
    assert len(holders()) <= before + 1  # one list of all entries, and no object for each
    assert [entry.subject for entry in journal.entries(after=1)] == [str(number) for number in range(100)]


def test_the_bound_of_a_journal_is_not_negative():
    with pytest.raises(ValueError, match="0 or more"):
        HashedEventJournal(VirtualClock(0), keep=-1)


@pytest.mark.parametrize("count", [0, 10, 1024, 3000])
def test_a_fork_shares_past_entries_and_is_independent_afterwards(count):
    journal = many(count)
    clock = VirtualClock(50_000)
    fork = journal.fork(clock)
    assert fork.entries() == journal.entries()
    assert fork.hash == journal.hash
    fork.note("only here", "x")
    journal.note("only there", "y")
    assert [entry.kind for entry in fork.entries(after=count)] == ["only here"]
    assert [entry.kind for entry in journal.entries(after=count)] == ["only there"]
    assert fork.entries(after=count)[0].at_ms == 50_000
    assert fork.hash != journal.hash
    for n in range(2_000):
        fork.note("later", str(n))
    assert len(journal) == count + 1
    assert len(fork) == count + 2_001


def test_a_snapshot_is_json():
    journal = written([(1, "paid", "c1", {"amount_msat": 5})])
    assert json.loads(json.dumps(journal.snapshot())) == {
        "length": 1,
        "hash": journal.hash,
        "entries": [[1, 1_001, "paid", "c1", {"amount_msat": 5}]],
    }


def test_every_copy_of_a_journal_says_from_when_it_has_entries():
    journal = written([(1, "paid", "c1", {"amount_msat": 5})])
    assert (journal.lost(), "since" in journal.snapshot()) == ("", False)
    journal.since_ms = 60_000
    restored = HashedEventJournal(VirtualClock(1_000))
    restored.restore(journal.snapshot())
    fork = journal.fork(VirtualClock(1_000))
    for copy in (journal, fork, restored, restored.fork(VirtualClock(1_000))):
        assert copy.lost() == "the journal no longer has what happened before 1970-01-01T00:01:00.000Z"
        assert repr(copy).endswith(f"; {copy.lost()}>")
    restored.restore(written([]).snapshot())
    assert restored.lost() == ""


def test_a_value_that_is_not_json_is_an_error_that_names_the_entry():
    journal = many(3)
    journal.note("odd", "c9", value={1, 2})
    with pytest.raises(JournalError, match=r"entry 4 \(odd of c9\).*JSON"):
        _ = journal.hash
    journal = many(1)
    journal.note("odd", "c9", value=float("nan"))
    with pytest.raises(JournalError, match="entry 2"):
        _ = journal.hash


SCRIPT = """
from leyden.world.time.clock import VirtualClock
from leyden.world.event_journal import HashedEventJournal
journal = HashedEventJournal(VirtualClock(5))
for kind in sorted({"paid", "expired", "held"}):
    journal.note(kind, "c\\u00e9\\U0001f5f2", **{name: {"b": 1, "a": [None, True]} for name in {"x", "y", "z"}})
print(journal.hash)
"""


def test_the_hash_is_the_same_in_every_process():
    # PYTHONHASHSEED changes the order of sets and dicts; the hash must not change.
    hashes = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=environment,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        hashes.add(run.stdout.strip())
    assert len(hashes) == 1


def test_a_long_journal_is_hashed_in_steps():
    journal, whole = many(2_500), many(2_500)
    steps = [journal.extend_hash(1_000) for _ in range(3)]
    assert steps == [False, False, True]
    assert journal.hash == whole.hash


def test_dropping_entries_hashes_those_entries_and_no_others():
    journal = many(1_500, keep=1_000)
    journal.note("later", "x", value={1, 2})
    for n in range(600):
        journal.note("tick", "0", n=n)
    assert journal.entries(limit=1)[0].sequence == 1_102
    with pytest.raises(JournalError, match="entry 1501 "):
        _ = journal.hash


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["paid", "expired"]), st.sampled_from("abcdef"))
        | st.sampled_from(["begin", "commit", "rollback", "fork", "restore"]),
        max_size=60,
    ),
    st.sampled_from([None, 0, 5, 12]),
)
def test_a_search_finds_what_a_look_at_all_entries_finds(script, keep) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_journal, "_CHUNK", 4)
        clock = VirtualClock(1_000)
        journal, is_open = HashedEventJournal(clock, keep=keep), False
        for step in script:
            if isinstance(step, tuple):
                clock.advance(step[0])
                journal.note(step[1], step[2])
            elif step == "begin" and not is_open:
                journal.begin()
                is_open = True
            elif step in ("commit", "rollback") and is_open:
                journal.commit() if step == "commit" else journal.rollback(ValueError())
                is_open = False
            elif step == "fork" and not is_open:
                journal = journal.fork(clock)
            elif step == "restore" and not is_open and keep is None:
                restored = HashedEventJournal(clock)
                restored.restore(journal.snapshot())
                journal = restored
        everything = journal.entries()
        assert [entry.sequence for entry in everything] == list(range(journal.dropped + 1, len(journal) + 1))
        instants = {entry.at_ms for entry in everything}
        for after in (0, 5, len(journal)):
            later = [entry for entry in everything if entry.sequence > after]
            for kind in ("paid", "expired", "other"):
                assert journal.entries(after, kind=kind) == [one for one in later if one.kind == kind]
            for subject in "abcdefg":
                assert journal.entries(after, subject=subject) == [one for one in later if one.subject == subject]
                assert (
                    journal.entries(after, 2, "paid", subject)
                    == [one for one in later if (one.kind, one.subject) == ("paid", subject)][:2]
                )
            for at in (*instants, 999):
                assert journal.entries(after, instants={at, 0}) == [one for one in later if one.at_ms == at]


def test_a_search_for_one_subject_reads_its_chunks() -> None:
    journal = many(20_000)
    first, unpacked = journal.entries(limit=1)[0], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_journal, "unpack", lambda chunk: unpacked.append(chunk) or unpack(chunk))
        journal._last_read = None
        assert journal.entries(subject="nobody") == journal.entries(kind="nothing") == []
        assert journal.entries(instants={first.at_ms - 1}) == []
    assert len(unpacked) <= 3
