"""The architecture: which package may import which, and what none of them may use.

`python -m tests.project.test_architecture` draws the layers that are checked here.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.conftest import LONGEST

ROOT = Path(__file__).parents[2]
STDLIB = sys.stdlib_module_names
SOURCES = sorted(path for folder in ("server", "sim") for path in (ROOT / folder).rglob("*.py"))
IMPORTING = sorted([*SOURCES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "notebooks" / "sources").glob("*.py")])

# From the lowest up. A module may import its own layer and those below; the longest matching name gives its layer.
LAYERS: list[tuple[str, ...]] = [
    ("specs", "notebooks"),
    (
        "server",
        "server.errors",
        "server.gc_pause",
        "server.money",
        "server.timestamps",
        "server.version",
        "server.ports",
        "server.html",
        "server.printable",
        "server.pipes",
        "server.spelling",
        "server.one_at_a_time",
    ),
    ("server.http.strict_json", "server.callbacks.ip_addresses", "server.callbacks.signing"),
    ("server.contract",),
    ("server.store",),
    ("server.http.written_numbers", "server.http.url_corrections", "server.http.number_range"),
    ("server.http.field_names",),
    ("server.http.ignored_fields", "server.http.corrections"),
    ("server.http.request",),
    (
        "server.http.validation",
        "server.http.request_parsing",
        "server.charges.lifecycle",
        "server.charges.request_values",
        "server.charges.rows",
        "server.charges.wire_model",
    ),
    ("server.charges.lnurl",),
    ("server.callbacks", "server.charges.lists", "server.http.projects", "server.http.idempotency"),
    ("server.charges",),
    ("server.http", "server.docs"),
    ("server.app", "server.service"),
    ("server.system",),
    (
        "api_client",
        "arguments",
        "condition_index",
        "errors",
        "extras",
        "files",
        "repr_tables",
        "rng",
        "stepwise",
        "text_patterns",
    ),
    ("distributions",),
    ("samples", "http_sandbox.instead"),
    ("http_sandbox.requests",),
    ("delivery_replays", "http_sandbox.receivers", "http_sandbox.resources"),
    ("http_sandbox",),
    ("world.interrupts", "world.time", "world.loopback", "world.merged_openapi"),
    ("world.event_journal", "lightning"),
    ("world.transaction",),
    ("callbacks", "service_faults"),
    ("world",),
    ("lab",),
    ("devserver",),
    ("sandbox",),
    ("harness.constants", "harness.steps", "harness.model"),
    ("harness.generators", "harness.targets"),
    ("harness.checks",),
    ("harness.control",),
    ("harness.session",),
    ("harness.executors",),
    ("harness.runs",),
    ("harness.conformance", "harness.obligations", "harness.reports"),
    ("harness.engines",),
    ("harness", "pytest_plugin"),
    ("schemathesis",),
    ("commands", "qa"),
    ("__main__", ""),
]
# Imports inside functions that point upward, to keep a start short: none.
OUTSIDE_ONLY_SYSTEM = {"socket", "time", "asyncio", "threading", "random", "secrets", "uuid"}
SYSTEM_CLOCK_CALLS = {
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "time.time",
    "time.monotonic",
    "uuid.uuid4",
}
# A lock reads no clock: a server thread and a notebook share one world. The thread of a progress bar only reads, and
# that of a worker waits for the word to stop. The development server awaits the network. The clients of the
# commands and of the harness end a connection when the time of a request is over.
ALLOWED = {
    ("server/one_at_a_time.py", "threading"),
    ("sim/world/moves/move_guard.py", "threading"),
    ("sim/world/moves/thread_moves.py", "threading"),
    ("sim/world/interrupts.py", "threading"),
    ("sim/lab/progress.py", "threading"),
    ("sim/harness/engines/workers.py", "threading"),
    ("sim/api_client/deadline.py", "threading"),
    ("sim/api_client/deadline.py", "socket"),
    ("sim/harness/targets/served.py", "socket"),
    ("sim/devserver/multi_tenant.py", "asyncio"),
    ("sim/devserver/request_log/stream.py", "asyncio"),
    ("sim/devserver/sandboxes/event_runner.py", "asyncio"),
    ("sim/devserver/sandboxes/removal.py", "asyncio"),
    ("sim/devserver/awaited_delivery.py", "asyncio"),
    ("sim/devserver/listen.py", "asyncio"),
    ("sim/harness/targets/hosted.py", "asyncio"),
}
# This file, and the one that writes a user's project with modules of these names.
OWNERS_OF_THE_NAMES = {"test_architecture.py", "test_example_project.py"}


def name_of(path: Path) -> str:
    """The module that a file is, without the leading `leyden.`: `server/app.py` is `server.app`."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[:1] == ["server"] else parts[1:])


MODULES = {name_of(path): path for path in SOURCES}


class Facts(NamedTuple):
    """What the tests ask about one file, so that each file is parsed once."""

    imports: frozenset[str]  # every module, those imported inside functions and for type checking included
    clock_calls: tuple[int, ...]  # lines that read the system clock
    state: tuple[str, ...]  # lines and names of module globals that can change


@cache
def facts_of(path: Path) -> Facts:
    tree = ast.parse(path.read_text())
    found: set[str] = set()
    clock_calls = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the whole path"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole.removeprefix("leyden.") in MODULES else node.module or "")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            clock_calls += [node.lineno] if f"{node.value.id}.{node.attr}" in SYSTEM_CLOCK_CALLS else []
    return Facts(frozenset(found), tuple(clock_calls), tuple(changeable_globals(tree)))


def changeable_globals(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield f"{node.lineno} rebinds a global"
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if not isinstance(target, ast.Name) or target.id.lstrip("_").isupper() or target.id == "__all__":
                continue  # tables that are only read are written in capitals, and never changed
            if isinstance(node.value, ast.List | ast.Dict | ast.Set | ast.ListComp):
                yield f"{node.lineno} {target.id}"


def imports_of(path: Path) -> frozenset[str]:
    """Every module that a file imports."""
    return facts_of(path).imports


def modules_imported(path: Path) -> set[str]:
    """The modules of this project that a file imports, named like `MODULES`."""
    own = {"" if name == "leyden" else name.removeprefix("leyden.") for name in imports_of(path) if is_ours(name)}
    return own & MODULES.keys()


def is_ours(name: str) -> bool:
    return name == "leyden" or name.startswith("leyden.")


def layer_of(module: str) -> int:
    """The number of the layer that a module stands in; -1 when it has none."""
    best, found = -1, -1
    for number, names in enumerate(LAYERS):
        for name in names:
            if (module == name or (name and module.startswith(f"{name}."))) and len(name) > best:
                best, found = len(name), number
    return found


def imports_by_the_name_of_a_folder(path: Path) -> Iterator[str]:
    # Any other way to name a folder is found in the text below. Most tests have none of these, and are not parsed.
    unusual = re.compile(r"^\s*(?:from\s+\.|import\s[^\n]*,|(?:from|import)(?:\s{2,}|\s*\\))", re.MULTILINE)
    is_test = path.is_relative_to(ROOT / "tests")
    for name in () if is_test and not unusual.search(path.read_text()) else imports_of(path):
        folder, _, rest = name.partition(".")
        right = {"sim": "leyden", "server": "leyden.server", "specs": "leyden.specs"}.get(folder)
        if right is not None:
            yield f"{path} imports {name}: its name is {right}{'.' if rest else ''}{rest}"
    quoted = re.search(r"\b(?:from|import) (?:sim|server|specs)\b", path.read_text().replace("\\n", "\n"))
    if quoted is not None and path.name not in OWNERS_OF_THE_NAMES:
        yield f"{path}: {quoted} in a text"


def test_nothing_is_imported_by_the_name_of_its_folder() -> None:
    """`server`, `sim` and `specs` are common names: only `leyden` is installed."""
    assert [found for path in IMPORTING for found in imports_by_the_name_of_a_folder(path)] == []


def imports_that_point_upward(path: Path) -> Iterator[str]:
    module = name_of(path)
    own = layer_of(module)
    if own < 0:
        yield f"{path}: give {module} a place in LAYERS"
    for imported in modules_imported(path):
        if module.startswith("server") and not imported.startswith(("server", "specs")):
            yield f"{path} imports {imported}: the service knows nothing of the simulation around it"
        # `leyden` itself names the public classes and imports none of them before they are asked for.
        if imported and layer_of(imported) > own:
            yield f"{path} imports {imported}, which stands above it"


def test_imports_point_downward() -> None:
    assert [found for path in SOURCES for found in imports_that_point_upward(path)] == []


def imported_by_each() -> dict[str, set[str]]:
    """The modules of this project that each module imports, except itself."""
    return {module: modules_imported(path) - {module} for module, path in MODULES.items()}


def circles(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """The groups of nodes that lead to each other in a circle (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for imported in graph[module]:
            if imported not in index:
                visit(imported)
                low[module] = min(low[module], low[imported])
            elif imported in stack:
                low[module] = min(low[module], index[imported])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in graph:
        if module not in index:
            visit(module)
    return found


def test_no_modules_import_each_other() -> None:
    assert circles(imported_by_each()) == []


def folder_of(module: str) -> str:
    """The folder that a module stands in. A module beside subfolders puts them together, and stands for itself."""
    folder = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    subfolders = any(path.parents[1] == MODULES[folder].parent for path in SOURCES if path.name == "__init__.py")
    return module if subfolders else folder


# The store's rows are TinyDB's storage interface, and TinyDB's table is one over these rows.
FOLDER_CIRCLES = [["server.store.rows", "server.store.table", "server.store.tinydb"]]


def test_no_folders_import_each_other() -> None:
    graph: dict[str, set[str]] = {folder_of(module): set() for module in MODULES}
    for module, imported in imported_by_each().items():
        graph[folder_of(module)] |= {folder_of(name) for name in imported} - {folder_of(module)}
    assert circles(graph) == FOLDER_CIRCLES


def uses_of_the_system(path: Path) -> Iterator[str]:
    where = str(path.relative_to(ROOT))
    if where.startswith("server/system/"):
        return
    for name in imports_of(path):
        top = name.split(".")[0]
        if top in OUTSIDE_ONLY_SYSTEM and (where, top) not in ALLOWED:
            yield f"{where} imports {name}"
    for line in facts_of(path).clock_calls:
        yield f"{where} reads the system clock in line {line}"


def test_time_and_randomness_come_from_the_ports() -> None:
    assert [found for path in SOURCES for found in uses_of_the_system(path)] == []


def test_no_module_keeps_state() -> None:
    assert [f"{path}:{found}" for path in SOURCES for found in facts_of(path).state] == []


def test_the_reference_model_imports_nothing_of_the_service() -> None:
    """The model is written from the specification: it imports the standard library and itself."""
    files = sorted((ROOT / "sim" / "harness" / "model").glob("*.py"))
    assert files
    for path in files:
        strangers = {
            name
            for name in imports_of(path)
            if not name.startswith("leyden.harness.model") and name.split(".")[0] not in STDLIB
        }
        assert not strangers, f"{path} imports {strangers}: the reference model never asks the service what is right"


def test_no_source_file_is_too_long() -> None:
    long = {
        str(path.relative_to(ROOT)): lines for path in SOURCES if (lines := len(path.read_text().splitlines())) > 400
    }
    assert not long


def test_there_is_no_other_top_level_package() -> None:
    known = {"notebooks", "sim", "server", "specs", "tests", "pyproject.toml", "README.md", "LICENSE"}
    built = {"build", "dist", "schemathesis-report", "leyden-data", "leyden-lab"}
    extra = {path.name for path in ROOT.iterdir()} - known - built
    assert not {name for name in extra if not name.startswith(".") and not name.endswith(".egg-info")}


def test_every_file_that_the_workers_begin_with_exists() -> None:
    assert [name for name in LONGEST if not (ROOT / "tests" / name).is_file()] == []


def drawing() -> str:
    """The layers as text, the highest first, each with the number of its modules and what it imports from below."""
    lines = []
    for number in reversed(range(len(LAYERS))):
        members = [module for module in MODULES if layer_of(module) == number]
        below = {layer_of(name) for module in members for name in modules_imported(MODULES[module])} - {number, -1}
        names = ", ".join(f"leyden.{name}" if name else "leyden" for name in LAYERS[number])
        arrow = " -> " + ", ".join(map(str, sorted(below, reverse=True))) if below else ""
        lines.append(f"{number:2}  {names}  ({len(members)} modules){arrow}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(drawing())
