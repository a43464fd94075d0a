"""Without the packages of the extras the sandbox works, and what needs one of them says so in one line."""

from __future__ import annotations

import subprocess
import sys

from tests.support.optional_api import CORE_API, OPTIONAL_API

PROGRAM = f"""
import importlib.abc, sys

ABSENT = set(
    "pandas numpy scipy matplotlib nbformat jupyterlab segno loky tqdm hypothesis schemathesis freezegun".split()
)

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import leyden
import leyden.extras

leyden.extras.is_installed = lambda package: package not in ABSENT
import leyden.sandbox.collections

leyden.sandbox.collections.is_installed = leyden.extras.is_installed
sb = leyden.Sandbox(seed=7)
charge = sb.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/paid")
for expression in {CORE_API!r}:
    eval(expression)
for expression, named, package, extra in {[tuple(each) for each in OPTIONAL_API]!r}:
    try:
        eval(expression)
    except leyden.errors.MissingExtra as missing:
        install = f'pip install "leyden[{{extra}}]", or in a checkout pip install ".[{{extra}}]"'
        assert str(missing) == f"{{named}} needs {{package}}: {{install}}", str(missing)
    else:
        raise AssertionError(expression)
assert not ABSENT & {{name.split(".")[0] for name in sys.modules}}
"""


def test_the_sandbox_works_without_the_extras_and_says_which_one_is_missing() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_packages_of_the_extras_are_not_imported_with_the_sandbox() -> None:
    program = "import sys; from leyden import Sandbox; Sandbox(); print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {each.package for each in OPTIONAL_API} & set(done.stdout.split())
