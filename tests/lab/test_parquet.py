"""Runs whose finished rows go to Parquet files: nothing is different but where the rows are."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pyarrow.dataset
import pyarrow.parquet
import pytest

import leyden
from leyden import Sandbox
from leyden.errors import ApiError, ArgumentError, LeydenError
from leyden.files.json_files import InputError
from leyden.lab.parquet.manifest import write_manifest
from leyden.lab.parquet.writer import RunWriter
from leyden.sandbox.time import spilled_runs
from tests.support.deep import deep, deep_except, deep_or

TABLES = (
    "charges", "payments", "attempts", "htlcs", "deliveries", "callbacks", "static_charges", "balances", "journal",
)  # fmt: skip
SHOP = "http://shop.localhost/paid"
MANIFEST = (
    '{"format": 1, "seed": 1, "start": "", "now": "", "world": "main", "parts": 1, "charges": 1, "removed": 1,'
    ' "journal": 1, "states": {"charges": {"status": ["paid"]}}}'
)
BEHAVIOURS = "choice(pays:6, late:1, never:1, twice:1, underpays:1, splits:1, holds:1, fails:1)"


@pytest.fixture(autouse=True, scope="module")
def _small_portions() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spilled_runs, "_PORTION", 20)
        patch.setattr(spilled_runs, "_EVENTS", 150)
        yield


def shop(**options: Any) -> Sandbox:
    """A sandbox with customers of all kinds, a receiver that fails now and then, and a Static Charge."""
    sb = Sandbox(seed=11, **options)
    sb.receiver("shop").behaves(failure=0.3, latency="lognorm(80ms, 0.5)")
    tips = sb.static_charges.create(minAmount="1000", maxAmount="900000", description="tips", callbackUrl=SHOP)
    for number in range(3):
        sb.wallet(f"w{number}").scan(tips, amount=2_000 + number)
    sb.traffic(
        "30/min", amount="lognorm(250000, 1)", behaviours=BEHAVIOURS, patience="lognorm(45s)", expiresIn=120,
        callbackUrl=SHOP, duration=deep_or(bounded="4m", full="8m"),
    )  # fmt: skip
    return sb


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run of the shop until nothing is left."""
    folder = tmp_path_factory.mktemp("written") / "run"
    shop().run(spill=folder)
    return folder


@pytest.fixture
def finished(written: Path, tmp_path: Path) -> Path:
    """A copy of that directory."""
    return shutil.copytree(written, tmp_path / "finished")


def test_only_the_owner_reads_the_directory_and_its_files(tmp_path: Path) -> None:
    former = os.umask(0o022)
    try:
        shop().run("1m", spill=tmp_path / "run")
    finally:
        os.umask(former)
    modes = {path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").rglob("*")}
    assert modes
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    for path, mode in modes.items():
        assert mode == (0o600 if path.suffix else 0o700), path


def of_a_former_version(folder: Path) -> None:
    """Make a directory as versions wrote it that knew no rows and no checksums of files."""
    manifest = orjson.loads((folder / "run.json").read_bytes())
    del manifest["files"], manifest["checksum"]
    (folder / "run.json").write_bytes(orjson.dumps(manifest))


def table(sb: Sandbox, name: str) -> pd.DataFrame:
    found = getattr(sb, name)
    frame: pd.DataFrame = found.table if name in ("charges", "static_charges") else found
    return frame


@pytest.mark.parametrize("options", deep_except({"direct": {}, "network": {"network": "star:12"}}, "direct"))
def test_the_run_and_its_tables_are_those_without_files(tmp_path: Path, options: dict[str, Any]) -> None:
    plain, spilled = shop(**options), shop(**options)
    plain.run("20m")
    assert spilled.run("20m", spill=tmp_path / "run") == []
    assert spilled.journal_hash == plain.journal_hash
    run = leyden.read(tmp_path / "run")
    assert (run.seed, run.start, run.now) == (11, "2030-01-01T00:00:00.000Z", plain.now)
    for name in TABLES:
        pd.testing.assert_frame_equal(run.table(name), table(plain, name))
    assert len(run.files("charges")) > 3
    ended = len(plain.charges) - len(spilled.charges)
    assert ended > deep_or(bounded=75, full=150)
    assert len(table(spilled, "payments")) < len(table(plain, "payments")) - deep_or(bounded=50, full=100)
    assert {*spilled.charges.table["id"]} <= {*plain.charges.table["id"]}
    pending = table(spilled, "deliveries").query("status == 'pending'")
    open_charges = spilled.charges.table.query("status == 'pending'")
    assert len(pending) == len(table(plain, "deliveries").query("status == 'pending'"))
    assert len(open_charges) == len(plain.charges.table.query("status == 'pending'"))


def test_other_tools_read_the_files(finished: Path) -> None:
    run = leyden.read(finished)
    found = pyarrow.dataset.dataset(run.files("charges")).to_table(columns=["amount_msat", "status"]).to_pandas()
    assert found["amount_msat"].sum() == run.charges["amount_msat"].sum()
    assert {*found["status"]} == {"completed", "expired"}


STEPS = {"idle": [("idle", None)], "parts": [("3m", None), ("idle", 40), ("next_event", None), ("17m", None)]}


@pytest.mark.parametrize("steps", deep_except(STEPS, "parts"))
def test_a_run_in_parts_continues_its_directory(tmp_path: Path, steps: list[Any]) -> None:
    plain, spilled = shop(), shop()
    for until, events in steps:
        plain.run(until, events=events)
        spilled.run(until, events=events, spill=tmp_path)
        assert spilled.now == plain.now
        pd.testing.assert_frame_equal(leyden.read(tmp_path).charges, plain.charges.table)
    assert spilled.journal_hash == plain.journal_hash
    pd.testing.assert_frame_equal(leyden.read(tmp_path).journal, plain.journal)


def test_columns_that_an_earlier_version_named_otherwise_are_read(finished: Path) -> None:
    of_a_former_version(finished)
    attempts, htlcs = leyden.read(finished).attempts, leyden.read(finished).htlcs
    for name in ("attempts", "htlcs"):
        for file in leyden.read(finished).files(name):
            old = pyarrow.parquet.read_table(file).drop_columns(["charge_id"])
            former = {"payment_id": "payment", "failure": "name"}
            pyarrow.parquet.write_table(old.rename_columns([former.get(c, c) for c in old.column_names]), file)
    run = leyden.read(finished)
    assert list(run.attempts.columns) == list(attempts.columns)
    assert run.attempts["payment_id"].tolist() == attempts["payment_id"].tolist()
    assert run.htlcs["payment_id"].tolist() == htlcs["payment_id"].tolist()
    assert run.htlcs["charge_id"].isna().all()


def test_what_a_run_with_files_returns_and_its_figures_say_where_the_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sb = shop()
    fired = sb.run(spill="run")
    assert repr(fired) == "the events are in the journal of leyden.read('run')"
    assert "the events are in the journal of leyden.read(" in fired._repr_html_()
    removed = len(leyden.read("run").charges)
    assert repr(sb.kpi).startswith(
        f"Kpi of the charges created from the start until now, without {removed} that were removed from the sandbox"
        " (leyden.read('run') has them)\n"
    )


def test_the_facts_of_a_run_are_columns(finished: Path) -> None:
    plain = shop()
    plain.run()
    pd.testing.assert_frame_equal(leyden.read(finished).facts("invoice_settled"), plain.facts("invoice_settled"))


def test_what_is_removed_is_unknown_to_the_service(tmp_path: Path) -> None:
    sb = Sandbox(seed=1)
    paid, open_ = (sb.charges.create(amount="1000", description="tea", expiresIn=600) for _ in range(2))
    sb.wallet("ana").pay(paid)
    sb.run("1m", spill=tmp_path)
    with pytest.raises(ApiError, match="404 Not found"):
        sb.ask("GET", f"/v0/charges/{paid.id}")
    assert sb.ask("GET", f"/v0/charges/{open_.id}")["data"]["status"] == "pending"
    assert sb.ask("GET", "/v0/wallet")["data"]["balance"] == "1000"
    assert sb.charges.create(amount="1000", description="tea").id not in {paid.id, open_.id}
    assert [*leyden.read(tmp_path).charges["status"]] == ["completed", "pending"]


def test_a_sandbox_is_saved_forked_and_kept_after_it(tmp_path: Path) -> None:
    sb = shop(data=tmp_path / "data")
    sb.run("5m", spill=tmp_path / "run")
    fork, expected = sb.fork("f"), sb.journal_hash
    sb.save(tmp_path / "saved.json")
    loaded = Sandbox.load(tmp_path / "saved.json")
    kept = [*sb.charges.table["id"]]
    for one in (sb, fork, loaded):
        one.run("10m")
        assert {*kept} <= {*one.charges.table["id"]}
    assert loaded.journal_hash == fork.journal_hash == sb.journal_hash != expected
    ids = [*sb.charges.table["id"]]
    sb.close()
    with Sandbox(data=tmp_path / "data") as again:
        assert [*again.charges.table["id"]] == ids
        again.run("1d", spill=tmp_path / "second")
        assert len(leyden.read(tmp_path / "second").charges) == len(ids)


def test_an_interrupt_keeps_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    advance_to = Sandbox.advance_to

    def interrupted(self: Sandbox, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return advance_to(self, *args)

    monkeypatch.setattr(Sandbox, "advance_to", interrupted)
    sb = shop()
    with pytest.raises(KeyboardInterrupt):
        sb.run("20m", spill=tmp_path)
    run = leyden.read(tmp_path)
    total = len(run.charges)
    assert total > len(sb.charges)
    assert run.now == sb.now
    (tmp_path / "charges" / "rest.parquet").unlink()
    with pytest.raises(InputError, match=r"rest\.parquet is missing: the run cannot be read without it"):
        _ = run.charges
    of_a_former_version(tmp_path)
    run = leyden.read(tmp_path)  # whose process may have been killed
    assert len(run.charges) == total - len(sb.charges)


@pytest.mark.parametrize("method", deep_except(["_write_journal", "_finish_removal"], "_finish_removal"))
def test_an_interrupt_within_a_portion_leaves_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    plain, sb = shop(), shop()
    plain.run("20m")
    written = getattr(RunWriter, method)
    calls = 0

    def interrupted(self: RunWriter, *args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls != (2 if method == "_write_journal" else 4):
            written(self, *args)
            return
        with self._world.exclusive():  # the interrupt is raised at its end
            signal.raise_signal(signal.SIGINT)
            if method == "_write_journal":
                written(self, *args)

    monkeypatch.setattr(RunWriter, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        sb.run("20m", spill=tmp_path)
    run = leyden.read(tmp_path)
    assert len(run.charges) > len(sb.charges)
    for name in ("charges", "payments", "deliveries"):
        assert run.table(name)["id"].is_unique, name
    assert run.journal["sequence"].is_unique
    sb.advance_to(plain.now)
    for one in (sb, plain):
        one.run(events=1, **({"spill": tmp_path} if one is sb else {}))
    for name in ("charges", "payments", "deliveries", "callbacks"):
        pd.testing.assert_frame_equal(leyden.read(tmp_path).table(name), table(plain, name))


@deep("test_an_interrupt_within_a_portion_leaves_each_row_once")
def test_a_killed_run_that_continued_a_directory_has_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sb = shop()
    sb.run("4m", spill=tmp_path)
    assert len(sb.charges)
    monkeypatch.setattr(RunWriter, "close", lambda self: None)  # the process is killed before
    sb.run("16m", spill=tmp_path)
    run = leyden.read(tmp_path)
    assert run.now == ""
    assert run.charges["id"].is_unique
    assert run.journal["sequence"].is_unique


def test_directories_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="has other files: give a new directory"):
        shop().run("1m", spill=tmp_path / "other")
    shop().run("10m", spill=tmp_path / "run")
    for another in (Sandbox(seed=12), shop()):
        with pytest.raises(InputError, match="has the run of another sandbox: give a new directory"):
            another.run("1m", spill=tmp_path / "run")
    with pytest.raises(InputError, match=r"has no run\.json"):
        leyden.read(tmp_path / "other")
    with pytest.raises(ValueError, match=r"there is no table 'charge': did you mean 'charges'\?"):
        leyden.read(tmp_path / "run").files("charge")
    with pytest.raises(ValueError, match="there is no table 'xyz': choose one of charges"):
        leyden.read(tmp_path / "run").files("xyz")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "cannot be read"),
        ("[]", "is not of a run with spill="),
        ('{"parts": "1"}', "is not of a run with spill="),
        ('{"parts": 1, "charges": 1, "removed": 1, "journal": 1, "format": 2}', "has the format 2"),
        (MANIFEST.replace('"seed": 1, ', ""), "is not of a run with spill="),
        (MANIFEST.replace('"seed": 1', '"seed": "1"'), "at 'seed'"),
        (MANIFEST.replace('"parts": 1', '"parts": 9999999999'), "at 'parts'"),
        (MANIFEST.replace('"paid"', '"paid", ["paid"]'), "at 'states/charges/status/1'"),
        (MANIFEST.replace('"paid"', '"paid", "paid"'), "at 'states/charges/status'"),
        (MANIFEST.replace('"status"', '"\\n"').replace('["paid"]', "1"), r"at 'states/charges/\\n'"),
    ],
)
def test_manifests_that_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match=expected):
        leyden.read(tmp_path)


def test_files_that_are_missing_or_damaged(finished: Path) -> None:
    first, second = (finished / "charges" / f"part-{number:05d}.parquet" for number in (1, 2))
    first.write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"a file of .*charges cannot be read"):
        _ = leyden.read(finished).charges
    second.unlink()
    with pytest.raises(InputError, match=r"part-00002\.parquet is missing"):
        _ = leyden.read(finished).charges
    manifest = orjson.loads((finished / "run.json").read_bytes())
    assert manifest["parts"] >= 2


@pytest.mark.parametrize("name", ["run.json", "charges/rest.parquet"])
def test_a_pipe_in_place_of_a_file_is_refused(name: str, finished: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(finished, tmp_path / "copy")
    (directory / name).unlink()
    os.mkfifo(directory / name)
    with pytest.raises(InputError, match=f"{Path(name).name} is no file: put the file that the run wrote"):
        leyden.read(directory).charges  # noqa: B018


def test_a_text_that_is_not_utf_8_is_refused(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def undecodable(*_: Any, **__: Any) -> None:
        b"\xc0".decode()

    monkeypatch.setattr("pyarrow.concat_tables", undecodable)
    with pytest.raises(InputError, match=r"a file of .*charges cannot be read"):
        leyden.read(finished).charges  # noqa: B018


def test_a_file_of_another_table_is_refused_by_its_columns(finished: Path) -> None:
    run = leyden.read(finished)
    for name in run.tables:
        run.table(name)
        for other in run.tables:
            if other == name:
                continue
            own, foreign = run.files(name)[-1], run.files(other)[-1]
            kept = own.read_bytes()
            own.write_bytes(foreign.read_bytes())
            with pytest.raises(InputError) as refused:
                run.table(name)
            text = str(refused.value)
            assert str(own) in text
            assert f"no file of the table {name}" in text
            assert "put the file of the table" in text
            own.write_bytes(kept)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda found: found.drop_columns(["id"]), "has no column 'id'"),
        (lambda found: found.drop_columns(["row"]), "has no column 'row'"),
        (lambda found: found.rename_columns({"status": "a\nb"}), "has the column 'a\\nb'"),
        (lambda found: found.set_column(1, "amount_msat", [["x"] * len(found)]), "has another type in the column"),
    ],
)
def test_a_file_with_other_columns_or_types_is_refused(change: Any, what: str, finished: Path) -> None:
    run = leyden.read(finished)
    file = run.files("charges")[0]
    found = pyarrow.parquet.read_table(file)
    if "another type" in what:
        place = found.schema.get_field_index("amount_msat")
        found = found.set_column(place, "amount_msat", [["x"] * len(found)])
    else:
        found = change(found)
    pyarrow.parquet.write_table(found, file)
    with pytest.raises(InputError) as refused:
        run.charges  # noqa: B018
    assert what in str(refused.value)
    assert str(refused.value).isprintable()


def test_an_empty_file_with_a_type_that_no_other_file_has_is_refused(finished: Path) -> None:
    of_a_former_version(finished)
    rest = finished / "payments" / "rest.parquet"
    found = pyarrow.parquet.read_table(rest).slice(0, 0)
    place = found.schema.get_field_index("attempts")
    times = pyarrow.array([], pyarrow.timestamp("us"))
    pyarrow.parquet.write_table(found.set_column(place, "attempts", times), rest)
    with pytest.raises(InputError, match=r"a file of .*payments cannot be read"):
        leyden.read(finished).payments  # noqa: B018


def test_a_portion_with_other_valid_rows_is_refused_by_its_name(finished: Path) -> None:
    first, second = (finished / "charges" / f"part-{number:05d}.parquet" for number in (1, 2))
    own, rows = first.read_bytes(), pyarrow.parquet.read_table(first)
    another = pyarrow.concat_tables([rows.slice(1), rows.slice(0, 1)])
    for content, why in (
        (second.read_bytes(), "is not the file that the run wrote: it"),
        (rows.slice(1), rf"it has {len(rows) - 1} rows, and the run wrote {len(rows)}; restore it from a copy, or"),
        (another, "its checksum is another one; restore it from a copy, or delete files and checksum"),
    ):
        if isinstance(content, bytes):
            first.write_bytes(content)
        else:
            pyarrow.parquet.write_table(content, first)
        with pytest.raises(InputError, match=why) as refused:
            leyden.read(finished).charges  # noqa: B018
        assert str(first) in str(refused.value)
    first.write_bytes(own)
    assert len(leyden.read(finished).charges) > len(rows)


def test_each_file_of_another_run_is_refused(finished: Path) -> None:
    run = leyden.read(finished)
    for name in run.tables:
        kept = {file: file.read_bytes() for file in run.files(name)}
        for file, content in kept.items():
            found = pyarrow.parquet.read_table(file)
            pyarrow.parquet.write_table(found.replace_schema_metadata({"of": "another run"}), file)
            with pytest.raises(InputError, match=f"{name}/{file.name} is not the file that the run wrote"):
                run.table(name)
            file.write_bytes(content)
        run.table(name)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda found: found | {"parts": found["parts"] - 1}, "its checksum is that of another content"),
        (lambda found: found | {"states": {"charges": {"status": ["pending"]}}}, "is that of another content"),
        (lambda found: {name: one for name, one in found.items() if name != "checksum"}, "is not of a run with spill="),
        (lambda found: found | {"files": {"charges/part-00001.parquet": {"rows": -1}}}, "is not of a run with spill="),
    ],
)
def test_a_manifest_that_was_changed_is_refused(finished: Path, change: Any, why: str) -> None:
    manifest = orjson.loads((finished / "run.json").read_bytes())
    (finished / "run.json").write_bytes(orjson.dumps(change(manifest)))
    with pytest.raises(InputError, match=why):
        leyden.read(finished)


def test_a_manifest_without_one_of_its_portions_is_refused(finished: Path) -> None:
    manifest = orjson.loads((finished / "run.json").read_bytes())
    del manifest["files"]["payments/part-00002.parquet"]
    write_manifest(finished, manifest)
    with pytest.raises(InputError, match=r"files has no payments/part-00002\.parquet; restore it from a copy, or"):
        leyden.read(finished)


def test_a_directory_of_a_former_version_opens_and_a_run_that_continues_it_adds_the_checksums(tmp_path: Path) -> None:
    sb, plain = shop(), shop()
    sb.run("2m", spill=tmp_path)
    of_a_former_version(tmp_path)
    assert len(leyden.read(tmp_path).charges) > len(sb.charges)
    sb.run("1m", spill=tmp_path)
    plain.run("3m")
    manifest = orjson.loads((tmp_path / "run.json").read_bytes())
    assert "charges/part-00001.parquet" in manifest["files"]
    pd.testing.assert_frame_equal(leyden.read(tmp_path).payments, plain.payments)


def test_a_run_that_was_killed_while_it_wrote_the_rest_has_its_portions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sb = shop()
    sb.run("2m", spill=tmp_path)
    written = RunWriter._write

    def killed(self: RunWriter, name: str, file: str, rows: Any) -> None:
        if (name, file) == ("payments", "rest.parquet"):
            raise KeyboardInterrupt
        written(self, name, file, rows)

    monkeypatch.setattr(RunWriter, "_write", killed)
    with pytest.raises(KeyboardInterrupt):
        sb.run("1s", spill=tmp_path)
    run = leyden.read(tmp_path)
    assert run.now == ""
    assert len(run.charges) == orjson.loads((tmp_path / "run.json").read_bytes())["charges"] > 0
    with pytest.raises(InputError, match=r"static_charges/rest\.parquet was not written, because the run was killed"):
        _ = run.static_charges


def quick(span: str = "3m") -> Sandbox:
    """A sandbox with customers who pay at once, or never."""
    sb = Sandbox(seed=1, start="2030-01-01T09:00Z")
    sb.traffic("12/min", payers=["ana", "bob"], callbackUrl=SHOP, duration="10m", expiresIn=60)
    sb.run(span)
    return sb


def removed_texts(sb: Sandbox) -> tuple[str, str]:
    """What a sandbox says of the Charges and of the payments that it no longer has, after a run with spill="run"."""
    counts = sb.world.removed.counts()
    text = "without {} that were removed from the sandbox (leyden.read('run') has them)"
    assert counts["charges"] > 20 < counts["payments"]
    return text.format(counts["charges"]), text.format(counts["payments"])


def titled(ax: Any) -> tuple[list[str], str]:
    return [text.get_text() for text in ax.texts], ax.get_title(loc="right").replace("\n", " ")


def test_whatever_counts_or_lists_rows_says_how_many_were_removed_and_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sb = quick()
    charge, payment = next(iter(sb.charges)), sb.wallet("ana").payments[0]
    before = sb.fork("before")
    sb.run("30s", spill="run")
    without, payments = removed_texts(sb)
    of_all = payments.replace("that", "of all wallets that", 1)
    for of in (sb, sb.fork("of"), sb.charges, sb.kpi):
        assert without in repr(of)
    assert without in unescape(sb._repr_html_())
    assert f"msat fees, {of_all}" in repr(sb.wallet("ana"))
    assert f"no payment is kept: {of_all.split()[1]} of all wallets removed (leyden" in repr(sb.wallet("eve"))
    assert without in sb.lifecycle("Charge").text
    unknown = [
        lambda: sb.charges[charge.id],
        lambda: charge.status,
        lambda: payment.status,
        lambda: charge.lifecycle(),
        lambda: charge.timeline(),
        lambda: sb.faults.add("drop", charge=charge),
    ]
    for read in unknown:
        with pytest.raises(LeydenError, match=r"; \d+ that ended were removed from the sandbox \(leyden.read\('run'"):
            read()
    with pytest.warns(UserWarning, match=r"here is without .* charges that were removed from the sandbox .*: rows of"):
        sb.diff(before)


def test_a_static_charge_and_a_wallet_say_what_their_lists_no_longer_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Sandbox(seed=1) as sb:
        tips = sb.static_charges.create(minAmount="1000", maxAmount="2000", description="Tips")
        sb.traffic("every(1m)", to=tips.id, count=3, amount=1500, payers=["ana"])
        sb.run("3m")
        assert [repr(each) for each in (tips.charges, sb.wallet("ana").payments)] == [
            repr([*tips.charges]), repr([*sb.wallet("ana").payments])
        ]  # fmt: skip
        assert ("without" in repr(tips), "without" in tips._repr_html_()) == (False, False)
        sb.run(spill="run")
        where = "that were removed from the sandbox (leyden.read('run') has them)"
        without = f"without 3 Charges of all kinds {where}"
        assert (tips.charges, repr(tips.charges)) == ([], f"[], {without}")
        assert (tips.slots, f", {without})" in repr(tips), without in unescape(tips._repr_html_())) == (3, True, True)
        assert repr(sb.wallet("ana").payments) == f"[], without 3 of all wallets {where}"


@deep("test_whatever_counts_or_lists_rows_says_how_many_were_removed_and_where_they_are")
def test_charts_and_notebooks_say_how_many_rows_were_removed_and_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sb = quick()
    sb.run("30s", spill="run")
    without, payments = removed_texts(sb)
    assert titled(sb.plot.conversion()) == (["no charge that is kept has ended"], without)
    assert titled(sb.plot.settle_times()) == (["no charge that is kept was paid"], without)
    assert titled(sb.plot.retries()) == (["no callback is kept"], without)
    assert titled(sb.plot.success_by_amount()) == (["no payment that is kept has ended"], payments)
    sb.notebook("of.ipynb")
    [introduction, *_] = orjson.loads((tmp_path / "of.ipynb").read_bytes())["cells"]
    counted = "".join(introduction["source"])
    assert (without in counted, f", {payments}, of which" in counted) == (True, True)
    assert f"There are 0 callbacks, {without}." in counted
    sb.advance("2m")
    assert titled(sb.plot.conversion()) == ([], without)
    later = sb.fork("later")
    later.run("1s", spill="of later")
    more = later.world.removed.without("charges")
    assert more.endswith(" (leyden.read('run') and leyden.read('of later') have them)")
    assert titled(later.plot.conversion(ax=sb.plot.conversion()))[1] == f"{without} later: {more}"


def spilled(data: Path) -> Sandbox:
    """A sandbox with a directory whose one Charge was removed by a run."""
    sb = Sandbox(seed=1, data=data)
    sb.charges.create(amount="1000", description="tea")
    sb.run(spill="run")
    return sb


def test_a_sandbox_that_is_opened_again_says_where_its_removed_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with spilled(tmp_path / "kept") as first:
        first.save(tmp_path / "case.json")
    by_path = f"none is kept: 1 removed (leyden.read('{tmp_path / 'run'}') has them)"
    assert by_path in repr(Sandbox.load(tmp_path / "case.json"))
    with Sandbox(data=tmp_path / "kept") as again:
        assert by_path in repr(again)
        again.run("1s", spill="run")
        assert "none is kept: 1 removed (leyden.read('run') has them)" in repr(again)
    with Sandbox(data=tmp_path / "kept") as again:
        assert by_path in repr(again)


def test_of_a_directory_of_a_former_version_it_is_said_what_removed_rows_until_a_run_continues_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with spilled(tmp_path / "kept") as first, first.world.exclusive():
        first.world.store.table("spill_directories").truncate()
    with Sandbox(data=tmp_path / "kept") as again:
        assert "none is kept: 1 removed by run(spill=) or --keep, before it was opened" in repr(again)
        again.run("1s", spill="run")
    with Sandbox(data=tmp_path / "kept") as again:
        assert f"none is kept: 1 removed (leyden.read('{tmp_path / 'run'}') has them)" in repr(again)


def test_over_http_an_unknown_id_is_said_to_be_that_of_a_removed_row_and_where_it_is(tmp_path: Path) -> None:
    sb = Sandbox(seed=1)
    charge = sb.charges.create(amount="1000", description="tea")
    tips = sb.static_charges.create(minAmount="1000", maxAmount="9000", description="tips")
    lnurl = f"/lnurlp/{tips.id}/verify/{'0' * 64}"
    sb.run(spill=tmp_path / "run")
    for of in (sb, sb.fork("of")):
        found = of.world.request("GET", f"/v0/charges/{charge.id}", ((b"apikey", of.world.config.api_key.encode()),))
        detail = orjson.loads(found.body)["detail"]
        assert found.status == 404
        assert detail.endswith(
            f"; run(spill=) has removed some that ended (leyden.read('{tmp_path / 'run'}') has them)"
        )
        public = orjson.loads(of.world.request("GET", lnurl).body)["reason"]
        assert public.endswith("; run(spill=) has removed some that ended")  # payers see no path of this machine


def test_the_directory_of_a_later_part_of_the_same_sandbox_is_named_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sb = quick("0s")
    start = sb.snapshot()
    sb.run("90s", spill="run")
    sb.restore(start)
    assert "removed" not in repr(sb)
    with pytest.raises(InputError, match=r"has a later part of this sandbox's run, which has returned .*: give a new"):
        sb.run("90s", spill=tmp_path / "run")
    sb.run("90s", spill="new")
    assert "(leyden.read('new') has them)" in repr(sb)


@deep("test_whatever_counts_or_lists_rows_says_how_many_were_removed_and_where_they_are")
def test_what_a_run_wrote_to_files_is_not_said_to_have_never_been(tmp_path: Path) -> None:
    sb = shop(network="star:12")
    sb.run(spill=tmp_path / "run")
    counts = sb.world.removed.counts()
    charges, payments = counts["charges"], counts["payments"]
    assert f"none is kept: {charges} removed" in repr(sb)
    assert f"no payment is kept: {payments} of all wallets removed" in repr(sb.wallet("nobody"))
    assert titled(sb.plot.conversion())[0] == ["no charge is kept"]
    with pytest.raises(
        ArgumentError, match=f"without {payments} payments that were removed from the sandbox .*history"
    ):
        sb.plot.liquidity()
    sb.charges.create(amount="1000", description="tea")
    assert f"1 pending, without {charges} that were removed from the sandbox" in repr(sb)
    assert titled(sb.plot.conversion())[0] == ["no charge that is kept has ended"]
    sb.notebook(tmp_path / "of.ipynb")
    assert f"It has 1 charge: 1 pending, without {charges} that were removed" in (tmp_path / "of.ipynb").read_text()
    sb.advance("1d")
    assert titled(sb.plot.conversion())[1].startswith(f"without {charges} that were removed from the sandbox")
