"""A file without an end, such as a device, is read up to a bound, and refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from leyden.__main__ import main
from tests.support.deep import sampled

ENDLESS = "/dev/zero"


@pytest.mark.skipif(not Path(ENDLESS).exists(), reason=f"there is no {ENDLESS}")
@pytest.mark.parametrize(
    "command",
    sampled(
        [
            ["replay", ENDLESS],
            ["table", "--spec", ENDLESS],
            ["table", "--into", ENDLESS],
            ["serve", "--port", "0", "--overlay", ENDLESS],
            ["sandbox", "import", ENDLESS],
            ["api", "POST", "/v0/charges", "--data", f"@{ENDLESS}"],
        ],
        3,
    ),
    ids=" ".join,
)
def test_an_endless_file_is_refused(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("leyden.files.json_files.MAX_FILE_BYTES", 5_000)
    monkeypatch.setattr("leyden.server.contract.load._MAX_BYTES", 2_000_000)
    assert main(command) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert ENDLESS in line
    assert "bytes" in line
