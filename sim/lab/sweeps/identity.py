"""The dependencies of a sweep's function as a text. Stored rows are still right if the texts are equal.

The text has the compiled code of the function and of everything of the user's that it reaches: helpers, classes,
modules, the values of globals, closures and defaults. What is installed (a package, the standard library, Leyden) is
named with its version. What is reached by a computed name (`getattr`, `importlib`), read from a file or from an
environment variable, or kept by another program is not seen.
"""

from __future__ import annotations

import copyreg
import dis
import importlib
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import cached_property, partial
from importlib import metadata, util
from pathlib import Path
from types import (
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

from leyden.server.version import VERSION

_PYTHON = f"python {sys.version_info[0]}.{sys.version_info[1]}"
_STDLIB = str(Path(sysconfig.get_path("stdlib")).resolve())
_PACKAGES = {"site-packages", "dist-packages"}
_NOT_PART_OF_A_CLASS = {"__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "_abc_impl"}
_MAX_IMPORTS = 10
_SLOTS = (MemberDescriptorType, GetSetDescriptorType)


class Identity:
    """The text of one value. `unknown` lists what has no text: where it was found, and its type."""

    def __init__(self, value: Any, name: str = "") -> None:
        self.unknown: list[str] = []
        name = name or getattr(value, "__qualname__", type(value).__qualname__)
        for _ in range(_MAX_IMPORTS):
            self._seen: dict[Any, int] = {}
            self._kept: list[Any] = []  # so that no id is used twice
            self._has_imported = False
            self.unknown.clear()
            try:
                found = self._of(value, name)
            except RecursionError:
                self.unknown, found = [f"{name} (too deep)"], "unknown"
            if not self._has_imported:  # else packages have new attributes, with which the text is different
                break
        self.text = repr((_PYTHON, found))

    def _of(self, value: Any, name: str) -> Any:
        """The value as nested lists of texts."""
        if value is None or isinstance(value, (bool, str, bytes)) or type(value) in (int, float, complex):
            return repr(value)
        if isinstance(value, CodeType):
            return self._code(value)
        if callable(getattr(value, "item", None)) and getattr(value, "ndim", None) == 0:
            return repr(value.item())  # a numpy number
        if id(value) in self._seen:
            return f"as {self._seen[id(value)]}"
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        if type(value) in (list, tuple):
            return [type(value).__name__, *(self._of(one, f"{name}[{place}]") for place, one in enumerate(value))]
        if type(value) in (set, frozenset):
            # In no fixed order, and so each item on its own.
            return [type(value).__name__, *sorted(repr(Identity(one).text) for one in value)]
        if type(value) in (dict, MappingProxyType):
            return ["dict", *((self._of(key, name), self._of(one, f"{name}[{key!r}]")) for key, one in value.items())]
        if isinstance(value, ModuleType):
            return self._module(value, frozenset(), name)
        if isinstance(value, (FunctionType, type)):
            module = value.__module__ or ""
            installed = _installed(module)
            if isinstance(value, FunctionType) and not (
                module.startswith("leyden.") or _is_installed(value.__code__.co_filename)
            ):
                installed = None  # without a module's name Python calls it one of `builtins`
            if installed is not None:
                return [installed, value.__qualname__, *self._wrapped(value, name)]
            return self._function(value, name) if isinstance(value, FunctionType) else self._class(value, name)
        return self._object(value, name)

    def _code(self, code: CodeType) -> Any:
        constants = [self._of(one, code.co_name) for one in code.co_consts]
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_kwonlyargcount)
        return ["code", code.co_code.hex(), repr(names), code.co_flags, constants]

    def _function(self, function: FunctionType, name: str) -> Any:
        code = function.__code__
        used, attributes, imported = set[str](), set[str](), set[str]()
        _names(code, used, attributes, imported)
        found = [self._of(code, name), self._of(function.__defaults__, name), self._of(function.__kwdefaults__, name)]
        for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                held = cell.cell_contents
            except ValueError:  # an empty cell
                continue
            found.append([variable, self._used(held, attributes, f"{variable} in {name}")])
        for variable in sorted(used & function.__globals__.keys()):
            found.append([variable, self._used(function.__globals__[variable], attributes, f"{variable} in {name}")])
        package = function.__globals__.get("__package__") or ""
        for module in sorted(imported):
            found += self._imported(module, package, attributes, name)
        kept = vars(function)
        if isinstance(kept.get("registry"), MappingProxyType):  # of `functools.singledispatch`; the rest is a cache
            kept = {"registry": kept["registry"]}
        attached = [[each, self._of(value, f"{name}.{each}")] for each, value in sorted(kept.items())]
        return ["function", function.__qualname__, *found, attached]

    def _wrapped(self, value: Any, name: str) -> list[Any]:
        """The functions and classes that a function of an installed package holds, as a decorator's result does."""
        cells = getattr(value, "__closure__", None) or ()
        held = [cell.cell_contents for cell in cells if cell != _EMPTY_CELL]
        return [self._of(one, name) for one in held if isinstance(one, (FunctionType, MethodType, partial, type))]

    def _imported(self, module: str, package: str, attributes: set[str], name: str) -> list[Any]:
        """A module that the code of a function imports, and those of the names that it takes from it that are modules
        too."""
        module, *taken = module.split(" ")
        found = []
        for each in (module, *(f"{module}{'' if module.endswith('.') else '.'}{one}" for one in taken)):
            count = len(sys.modules)
            try:
                if each != module and util.find_spec(each, package) is None:
                    continue  # no module
                loaded = importlib.import_module(each, package)
            except (ImportError, ValueError):
                if each == module:
                    found.append([each, "not installed"])
                continue
            except Exception as error:  # the module is the user's program
                self.unknown.append(f"{each} in {name} ({type(error).__name__} when it is imported)")
                continue
            finally:
                self._has_imported |= len(sys.modules) != count
            found.append([each, self._used(loaded, attributes, f"{each} in {name}")])
        return found

    def _used(self, value: Any, attributes: set[str], name: str) -> Any:
        return (
            self._module(value, frozenset(attributes), name) if isinstance(value, ModuleType) else self._of(value, name)
        )

    def _module(self, module: ModuleType, attributes: frozenset[str], name: str) -> Any:
        """The user's own module counts with the attributes that code reads from it."""
        installed = _installed(module.__name__)
        if installed is not None:
            return [installed, module.__name__]
        key = (id(module), attributes)
        if key in self._seen:
            return f"as {self._seen[key]}"
        self._seen[key] = len(self._seen)
        read = sorted(attributes & vars(module).keys())
        return [
            "module",
            module.__name__,
            *([each, self._used(vars(module)[each], set(attributes), f"{module.__name__}.{each}")] for each in read),
        ]

    def _class(self, kind: type, name: str) -> Any:
        members = [
            [each, self._member(value, each, kind.__qualname__)]
            for each, value in sorted(vars(kind).items())
            if each not in _NOT_PART_OF_A_CLASS and not isinstance(value, _SLOTS)
        ]
        metaclass = [] if type(kind) is type else [self._of(type(kind), f"the metaclass of {name}")]
        return ["class", kind.__qualname__, self._of(kind.__bases__, name), members, *metaclass]

    def _member(self, value: Any, member: str, kind: str) -> Any:
        if member == "__dataclass_fields__":
            return [self._of(field, f"{kind}.{name}") for name, field in value.items()]
        return self._of(value, f"{kind}.{member}")

    def _object(self, value: Any, name: str) -> Any:
        """Anything else: by the parts that it is known to have, or by those that a copy would be made of."""
        if isinstance(value, partial):
            return ["partial", *(self._of(part, name) for part in (value.func, value.args, value.keywords))]
        if isinstance(value, MethodType):
            return ["method", self._of(value.__func__, name), self._of(value.__self__, name)]
        if isinstance(value, (staticmethod, classmethod)):
            return [type(value).__name__, self._of(value.__func__, name)]
        if isinstance(value, property):
            return ["property", *(self._of(part, name) for part in (value.fget, value.fset, value.fdel))]
        if isinstance(value, cached_property):
            return ["cached_property", self._of(value.func, name)]
        if hasattr(value, "__wrapped__"):  # a function with a cache, for example
            return [self._of(type(value), name), self._of(value.__wrapped__, name)]
        kind = type(value)
        try:
            # An object of Leyden that is no plain record is connected to a whole sandbox.
            is_plain = (
                is_dataclass(kind) or issubclass(kind, (tuple, Enum)) or not kind.__module__.startswith("leyden.")
            )
            reduced = copyreg.dispatch_table.get(kind)  # of a `re.Pattern`, for example
            parts = None if not is_plain else value.__reduce_ex__(4) if reduced is None else reduced(value)
        except Exception:  # the user's own `__reduce_ex__` may raise anything; the value is then named as unknown
            parts = None
        if isinstance(parts, str):
            return [parts, _installed(getattr(value, "__module__", None) or type(value).__module__) or ""]
        if parts is None:
            self.unknown.append(f"{name} ({type(value).__qualname__})")
            return "unknown"
        return ["object", *(self._part(list(part) if isinstance(part, Iterator) else part, name) for part in parts)]

    def _part(self, part: Any, name: str) -> Any:
        """A part of an object; what is unknown in it is named as the object's attribute."""
        if type(part) is tuple:
            return ["tuple", *(self._part(one, name) for one in part)]
        if type(part) is dict:
            return ["dict", *([repr(key), self._of(one, f"{name}.{key}")] for key, one in part.items())]
        return self._of(part, name)


_EMPTY_CELL = CellType()


def _names(code: CodeType, used: set[str], attributes: set[str], imported: set[str]) -> None:
    """The names of globals, attributes and modules that this code and the code within it read. A
    module is written with what is taken from it: "package.module name other"."""
    constants: list[Any] = [0, None]  # before an import: its level and the names that it takes
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            used.add(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
            attributes.add(step.argval)
        elif step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            constants.append(step.argval)
        elif step.opname == "IMPORT_NAME":
            level, taken = constants[-2:]
            imported.add(" ".join(["." * level + step.argval, *(taken or ())]))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _names(constant, used, attributes, imported)


def _installed(module: str | None) -> str | None:
    """The name and version of the package of a module; None for a module of the user's own."""
    top = (module or "builtins").partition(".")[0]
    if top == "leyden":
        return f"leyden {VERSION}"
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return None if top == "__main__" else top
    loaded = sys.modules.get(top)
    file = getattr(loaded, "__file__", None)
    if file is None or not _is_installed(file):
        return None
    try:
        return f"{top} {metadata.version(top)}"
    except metadata.PackageNotFoundError:
        return f"{top} {getattr(loaded, '__version__', '')}"


def _is_installed(file: str) -> bool:
    path = Path(file).resolve()
    return file.startswith("<frozen") or str(path).startswith(_STDLIB) or bool(_PACKAGES & set(path.parts))
