"""The import of a module from a mutated source text."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent


def module_name(module: str) -> str:
    """The import name of a file: `sim/` is the package itself, `server/` a part of it."""
    return "leyden." + module.removeprefix("sim/").removesuffix(".py").replace("/", ".")


class MutantImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from another source text."""

    def __init__(self, module: str, source: str) -> None:
        self._name = module_name(module)
        self._path = str(ROOT / module)
        self._source = source

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The module itself, and no other."""
        if name != self._name:
            return None
        return importlib.util.spec_from_loader(name, self, origin=self._path)

    def exec_module(self, module: Any) -> None:
        """Run the source text in the module."""
        module.__file__ = self._path
        exec(compile(self._source, self._path, "exec"), module.__dict__)
