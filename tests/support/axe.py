"""axe-core, which checks the accessibility of a page, from the npm registry."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.support.browser import Tab

VERSION = "4.14.1"
_LONGEST_S = 120


class NoAxe(Exception):
    """npm is not installed, or reaches no registry."""


def axe_source(folder: Path) -> str:
    """The script of axe-core, installed below the folder on the first use. Raises `NoAxe`."""
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise NoAxe("npm is not installed: install Node.js with npm")
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-save", f"axe-core@{VERSION}"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
        except subprocess.TimeoutExpired:
            raise NoAxe("npm did not end in two minutes: it reaches no registry") from None
        if done.returncode != 0:
            raise NoAxe(f"npm reaches no registry: {done.stderr[-400:]}")
    return script.read_text(encoding="utf-8")


def violations(tab: Tab, source: str, within: str = "document") -> list[str]:
    """What axe finds on the page as it is, or in one element, serious or critical: the rule and the first elements."""
    if not tab("typeof axe === 'object'"):
        tab(source + "; 0")
    run = f"axe.run({within}, {{resultTypes: ['violations']}}).then((result) => result.violations)"
    found: list[dict[str, Any]] = tab(run)
    return [
        f"{one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]
