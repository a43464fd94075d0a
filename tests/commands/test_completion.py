"""`leyden completion`: the shells complete commands, options and values."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.served import run_command

BASH = """
source "$0"
complete -p leyden >/dev/null
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_shtab_leyden
printf '%s\\n' "${COMPREPLY[@]}"
"""
COMPLETIONS = [
    ("ser", ["serve"]),
    ("serve --dur", ["--durability"]),
    ("serve --durability ", ["always", "interval", "os"]),
    ("completion ", ["bash", "fish", "zsh"]),
]


def script(shell: str, folder: Path) -> Path:
    """The script of a shell in a file."""
    done = run_command("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    path = folder / f"leyden.{shell}"
    path.write_text(done.stdout)
    return path


def program(shell: str) -> str:
    """The path of a shell; the test is skipped without it."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed: install the package {shell}")
    return found


def test_bash_completes(tmp_path: Path) -> None:
    bash, path = program("bash"), script("bash", tmp_path)
    for words, expected in COMPLETIONS:
        command = [bash, "-c", BASH, str(path), *f"leyden {words}".split(" ")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert sorted(done.stdout.split()) == expected, done.stderr


def test_fish_completes(tmp_path: Path) -> None:
    fish, path = program("fish"), script("fish", tmp_path)
    for words, expected in COMPLETIONS:
        command = [fish, "-N", "-c", f"source {path}; complete -C 'leyden {words}'"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert sorted(line.split("\t")[0] for line in done.stdout.splitlines()) == expected, done.stderr


def test_zsh_reads_the_script(tmp_path: Path) -> None:
    zsh, path = program("zsh"), script("zsh", tmp_path)
    assert path.read_text().startswith("#compdef leyden\n")
    subprocess.run([zsh, "-n", str(path)], check=True)


def test_an_option_for_a_file_completes_files(tmp_path: Path) -> None:
    bash, path = program("bash"), script("bash", tmp_path)
    (tmp_path / "one.case.json").touch()
    command = [bash, "-c", BASH, str(path), "leyden", "replay", str(tmp_path / "one")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(tmp_path / "one.case.json")]


def test_another_shell_is_refused() -> None:
    done = run_command("completion", "tcsh")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "bash, zsh, fish" in done.stderr
