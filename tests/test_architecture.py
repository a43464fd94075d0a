"""The house: which rooms open onto which, and what none of them may touch."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STDLIB = sys.stdlib_module_names
SOURCES = sorted(path for room in ("server", "sim") for path in (ROOT / room).rglob("*.py"))

IMPORTING = sorted([*SOURCES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "notebooks" / "sources").glob("*.py")])

# Each layer may import itself and those before it.
SERVER_LAYERS = [
    {"errors", "money", "ports", "moments", "version", "timers", "call", "strict_json", "addresses", "signing"},
    {"contract", "lifecycle", "model", "lnurl", "checks", "reading"},
    {"store"},
    {"attempts", "deliveries", "hands", "callbacks", "projects", "idempotency", "listing", "egress"},
    {"charges"},
    {"static_charges"},
    {"lnurl_pay"},
    {"door", "docs", "docs_examples", "docs_fields", "docs_markup", "docs_diagram", "docs_operations", "tables"},
    {"app", "service"},
    {"system", "system_courier", "system_session", "system_sync"},
]
SIM_LAYERS = [
    {"clock", "streams", "bolt11", "bolt11_fields", "loopback", "merged", "shown"},
    {"journal", "lightning", "payers", "client"},
    {"turns", "garbage"},
    {"wire"},
    {"visitors"},
    {"world", "plans", "walks", "following", "forks", "diary"},
    {"lab"},
    {"desk"},
    {"sandbox"},
    {"harness", "pytest_plugin"},
    {"__main__", "__init__"},
]
OUTSIDE_ONLY_SYSTEM = {"socket", "time", "asyncio", "threading", "random", "secrets", "uuid"}
WALL_CALLS = {
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "time.time",
    "time.monotonic",
    "uuid.uuid4",
}
# A lock is no clock: the world has one so that a server thread and a notebook take turns. The desk faces outwards, and
# awaits what others answer.
ALLOWED = {
    ("sim/world.py", "threading"),
    ("sim/desk/host.py", "asyncio"),
    ("sim/desk/carried.py", "asyncio"),
    ("sim/desk/listen.py", "asyncio"),
    ("sim/desk/receiver_command.py", "asyncio"),
}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the whole path"
            found.add(node.module or "")
    return found


def room_of(name: str) -> tuple[str, list[str]]:
    """The folder that an imported name comes from (`sim` is the package `leyden`), and the rest of its path."""
    parts = name.split(".")
    if parts[0] != "leyden":
        return "", parts
    if len(parts) > 1 and parts[1] in {"server", "specs"}:
        return parts[1], parts[2:]
    return "sim", parts[1:]


@pytest.mark.parametrize("path", IMPORTING, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_imported_by_the_name_of_its_folder(path: Path) -> None:
    """`server`, `sim` and `specs` are everybody's names: what is installed is `leyden`."""
    for name in imports_of(path):
        room, _, rest = name.partition(".")
        right = {"sim": "leyden", "server": "leyden.server", "specs": "leyden.specs"}.get(room)
        assert right is None, f"{path} imports {name}: its name is {right}{'.' if rest else ''}{rest}"


def layer_of(module: str, layers: list[set[str]]) -> int:
    return next((number for number, layer in enumerate(layers) if module in layer), -1)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    inside = path.relative_to(ROOT).with_suffix("").parts
    room, module = inside[0], inside[1]
    layers = SERVER_LAYERS if room == "server" else SIM_LAYERS
    own = layer_of(module, layers)
    assert own >= 0 or module == "__init__", f"{path}: give this module a place in the layers of this test"
    for name in imports_of(path):
        target, module_path = room_of(name)
        if target == "sim":
            assert room == "sim", f"{path} imports {name}: the service never knows the world around it"
        if target == room and module_path and module != "__init__":
            assert layer_of(module_path[0], layers) <= own, f"{path} imports {name}, which stands above it"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_time_and_chance_come_from_the_ports(path: Path) -> None:
    where = str(path.relative_to(ROOT))
    if path.stem.startswith("system"):
        return
    for name in imports_of(path):
        top = name.split(".")[0]
        assert top not in OUTSIDE_ONLY_SYSTEM or (where, top) in ALLOWED, f"{where} imports {name}"
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert f"{node.value.id}.{node.attr}" not in WALL_CALLS, f"{where}:{node.lineno} reads the wall clock"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_keeps_state(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Global | ast.Nonlocal):
            pytest.fail(f"{path}:{node.lineno} rebinds a global")
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(node.value, ast.List | ast.Dict | ast.Set | ast.ListComp):
                # Tables that are only read are written in capitals, and never changed.
                assert target.id.lstrip("_").isupper() or target.id == "__all__", f"{path}:{node.lineno} {target.id}"


def test_the_reference_model_knows_nothing_of_the_service() -> None:
    """What is right is decided from the papers: the model stands on the standard library and on itself."""
    files = sorted((ROOT / "sim" / "harness").glob("model*.py"))
    assert files
    own = {f"leyden.harness.{path.stem}" for path in files}
    for path in files:
        strangers = {name for name in imports_of(path) if name not in own and name.split(".")[0] not in STDLIB}
        assert not strangers, f"{path} imports {strangers}: the reference model never asks the service what is right"


def test_no_source_file_is_crowded() -> None:
    crowded = {
        str(path.relative_to(ROOT)): lines for path in SOURCES if (lines := len(path.read_text().splitlines())) > 400
    }
    assert not crowded


def test_nothing_else_stands_at_the_top() -> None:
    known = {"notebooks", "sim", "server", "specs", "tests", "pyproject.toml", "README.md", "LICENSE"}
    built = {"build", "dist", "schemathesis-report", "leyden-data", "leyden-lab"}
    extra = {path.name for path in ROOT.iterdir()} - known - built
    assert not {name for name in extra if not name.startswith(".") and not name.endswith(".egg-info")}
