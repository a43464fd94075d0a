"""Stored rows of a sweep are read only while all that the function reaches is unchanged, in new processes too."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from leyden import grid, sweep
from leyden.errors import SweepError
from leyden.lab.sweeps.identity import Identity
from tests.support.deep import deep

DECORATOR = "def plain(g):\n    def inner(*args): return g(*args)\n    return inner\n"
# Runs the function `f` of each program, twice; prints how often it ran and its results.
DRIVER = """
import sys
from pathlib import Path
from leyden import grid, sweep
sys.dont_write_bytecode = True
sys.path.insert(0, "")
for number, file in enumerate(sorted(Path().glob("program*.py"))):
    module = __import__(file.stem)
    module.marks = marks = Path(f"marks{number}")
    before = len(marks.read_text()) if marks.exists() else 0
    rows = [
        sweep(module.f, grid(e=[1]), workers=1, progress=False, store=f"runs{number}.jsonl") for _ in range(2)
    ]
    print(number, len(marks.read_text()) - before, *(row["x"][0] for row in rows))
"""
REGISTERED = """
import functools
@functools.singledispatch
def g(x): return 0
@g.register
def _(x: int): return 1
"""
METHOD = """
from functools import singledispatchmethod
class K:
    @singledispatchmethod
    def v(self, x): return 0
    @v.register
    def _(self, x: int): return 1
"""
CACHED = "from functools import cached_property\nclass K:\n    @cached_property\n    def v(self): return 1"
DATA = (
    "from dataclasses import dataclass, field\n@dataclass\nclass K:\n    v: list = field(default_factory=lambda: [1])"
)
FROZEN = "from dataclasses import dataclass\n@dataclass(frozen=True, slots=True)\nclass K:\n    v: int\nk = K(1)"
CONTEXT = "from contextlib import contextmanager\n@contextmanager\ndef k(): yield 1"
PROXY = "from types import MappingProxyType\nP = MappingProxyType({'a': 1})"
# What a program starts with, the body of its function, and the module PACKAGE/rel.py; each has a package of its own.
PROGRAMS = [
    ("", "from PACKAGE import sub; x = sub.h()", ""),
    ("import PACKAGE", "from PACKAGE import sub; x = sub.h()", ""),
    ("import PACKAGE", "import PACKAGE.sub; x = PACKAGE.sub.h()", ""),
    ("from PACKAGE.rel import k", "x = k()", "def k():\n    from . import sub\n    return sub.h()"),
    ("from PACKAGE.rel import k", "x = k()", "def k():\n    from .sub import h\n    return h()"),
    (REGISTERED, "x = g(1)", ""),
    (f"{REGISTERED}\nclass K:\n    def v(self): return 1\ng.register(K, K.v)", "x = g(K())", ""),
    ("def table(): pass\ntable.rate = 1", "x = table.rate", ""),
    (CONTEXT, "x = k().__enter__()", ""),
    (CACHED, "x = K().v", ""),
    (METHOD, "x = K().v(1)", ""),
    (DATA, "x = K().v[0]", ""),
    (FROZEN, "x = k.v", ""),
    ("import re\nP = re.compile('a{1}')", "x = int(P.pattern[2])", ""),
    (PROXY, "x = P['a']", ""),
]
VALUES = ("return 1", "yield 1", "[1]", "k = K(1)", "rate = 1", "a{1}", "'a': 1")


@deep("test_a_changed_metaclass_is_seen")
def test_a_changed_helper_is_run_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    def outputs(value: int) -> list[str]:
        for number, (start, body, module) in enumerate(PROGRAMS):
            package = tmp_path / f"package{number}"
            package.mkdir(exist_ok=True)
            run = f"def f(s):\n    marks.open('a').write('x')\n    {body}\n    return dict(x=x)"
            files = {
                package / "__init__.py": "",
                package / "sub.py": "def h(): return 1",
                package / "rel.py": module,
                tmp_path / f"program{number:02d}.py": f"{start}\n{run}\n",
            }
            for file, text in files.items():
                for old in VALUES:
                    text = text.replace(old, old.replace("1", str(value)))
                file.write_text(text.replace("PACKAGE", package.name))
        command = [sys.executable, "-c", DRIVER]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    count = range(len(PROGRAMS))
    assert outputs(1) == [f"{number} 1 1 1" for number in count]
    assert outputs(1) == [f"{number} 0 1 1" for number in count]
    assert outputs(2) == [f"{number} 1 2 2" for number in count]


def test_a_function_that_a_decorator_of_a_package_hides_is_seen() -> None:
    """A decorator without `functools.wraps`: the result seems to be a function of the package."""
    library = ModuleType("json")
    exec(DECORATOR, vars(library))
    plain: Any = vars(library)["plain"]
    assert Identity(plain(lambda: 1)).text != Identity(plain(lambda: 2)).text


def test_a_submodule_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "module_with_an_error.py").write_text("1 / 0")
    names: dict[str, Any] = {}
    exec("def run(s):\n    import module_with_an_error\n    return {}", names)
    with pytest.raises(SweepError, match=r"module_with_an_error in run \(ZeroDivisionError when it is imported\)"):
        sweep(names["run"], grid(x=[1]), store=tmp_path / "runs.jsonl", progress=False)


class Held:
    """An object with a part that has no fixed form."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_what_is_unknown_in_an_object_is_named_as_its_attribute(tmp_path: Path) -> None:
    held = Held()

    def run(s: Any) -> dict[str, Any]:
        return {"y": str(held.lock)}

    with pytest.raises(SweepError, match=r"identified: held in [^ ]*run\.lock \(lock\) has no fixed form"):
        sweep(run, grid(x=[1]), store=tmp_path / "runs.jsonl", progress=False)


METACLASS = """
class M(type):
    def fee(cls): return {fee}
class K(metaclass=M): pass
def f(s): return {{"x": K.fee()}}
"""


def test_a_changed_metaclass_is_seen() -> None:
    texts = []
    for fee in (1, 1, 100):
        program: dict[str, Any] = {"__name__": "program"}
        exec(METACLASS.format(fee=fee), program)
        identity = Identity(program["f"])
        assert not identity.unknown
        texts.append(identity.text)
    assert texts[0] == texts[1] != texts[2]
