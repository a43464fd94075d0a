"""A journal that is damaged after a compaction: the compacted state is whole or of no use, what follows it is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from leyden import Sandbox
from leyden.errors import LeydenError
from leyden.server.store.journal import JOURNAL_NAME, DamagedJournal, recover


def compacted(data: Path) -> int:
    """A directory with a compacted journal and later commits. Returns the number of lines of the compacted state."""
    with Sandbox(data=data, start="2030-01-01T09:00Z") as sandbox:
        charge = sandbox.charges.create(amount="21000", description="tea", callbackUrl="http://shop.localhost/paid")
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("10s")
        sandbox.world.store.compact()
        lines = len((data / JOURNAL_NAME).read_bytes().splitlines())
        sandbox.charges.create(amount="22000", description="cake")
        sandbox.advance("1s")
    return lines


def test_a_damage_in_the_compacted_state_is_not_recovered_and_one_after_it_is(tmp_path: Path) -> None:
    lines = compacted(tmp_path / "data")
    journal = tmp_path / "data" / JOURNAL_NAME
    whole = journal.read_bytes()
    all_lines = whole.splitlines(keepends=True)
    assert lines < len(all_lines)
    for number in range(1, len(all_lines)):
        damaged = [*all_lines]
        damaged[number] = damaged[number][:-3] + b"~" + damaged[number][-2:]
        journal.write_bytes(b"".join(damaged))
        is_compacted = number < lines - 1  # without the line that ends it, the state is complete
        with pytest.raises(DamagedJournal) as found:
            Sandbox(data=tmp_path / "data")
        assert found.value.line == number + 1
        assert ("belongs to the compacted state" in str(found.value)) == is_compacted
        assert ("recover(" in str(found.value)) == (not is_compacted)
        if is_compacted:
            with pytest.raises(DamagedJournal):
                recover(tmp_path / "data")
            assert journal.read_bytes() == b"".join(damaged)
            assert not [path for path in journal.parent.iterdir() if "damaged" in path.name or "recovered" in path.name]
            continue
        aside, _ = recover(tmp_path / "data")
        with Sandbox(data=tmp_path / "data") as sandbox:
            assert len(sandbox.charges) >= 1
        aside.unlink()
    journal.write_bytes(whole)
    with pytest.raises(LeydenError, match="sound"):
        recover(tmp_path / "data")
