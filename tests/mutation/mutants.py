"""Mutants of a source file by mutmut, without those that cannot change its behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import Mutation, create_mutations


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutation: its module and line, the original code and the mutated code."""

    module: str
    line: int
    was: str
    now: str
    tree: cst.Module
    mutation: Mutation

    @property
    def name(self) -> str:
        """One line for a list."""
        return f"{self.module}:{self.line}  {' '.join(self.was.split())[:60]}  ->  {' '.join(self.now.split())[:60]}"

    def source(self) -> str:
        """The source of the module with the mutation."""
        return self.tree.deep_replace(self.mutation.original_node, self.mutation.mutated_node).code  # type: ignore[arg-type]


def mutants_of(root: Path, module: str) -> list[Mutant]:
    """The mutants of a module (such as `server/money.py`), in the order of the source."""
    tree, mutations, _, _ = create_mutations(module, (root / module).read_text())
    # The positions belong to the tree that mutmut has made.
    lines = MetadataWrapper(tree, unsafe_skip_copy=True).resolve(PositionProvider)
    types, codecs = _types_and_codecs(tree)
    found = []
    for mutation in mutations:
        before, after = mutation.original_node, mutation.mutated_node
        # Outside functions there are names, types and slots: most mutations of them have no effect.
        if mutation.contained_by_top_level_function is None or _is_sentence(before) or before in types:
            continue
        if _same_call(before, after) or (before in codecs and _differs_in_case(before, after)):
            continue
        place = lines.get(before)
        was, now = (tree.code_for_node(node) for node in (before, after))
        if was != now:
            found.append(Mutant(module, place.start.line if place else 0, was, now, tree, mutation))
    return found


def _is_sentence(was: cst.CSTNode) -> bool:
    """Whether it is a text for people, whose exact words no test checks."""
    if isinstance(was, cst.FormattedStringText | cst.FormattedString | cst.ConcatenatedString):
        return True
    return isinstance(was, cst.SimpleString) and " " in was.value


def _types_and_codecs(tree: cst.Module) -> tuple[set[cst.CSTNode], set[cst.CSTNode]]:
    """The types that values are cast to, and the names of codecs, as nodes of the tree."""
    calls = [call for call in m.findall(tree, m.Call(args=[m.AtLeastN(n=1)])) if isinstance(call, cst.Call)]
    types = {call.args[0].value for call in calls if m.matches(call.func, m.Name("cast"))}
    coding = m.Attribute(attr=m.Name("encode") | m.Name("decode"))
    codecs = {call.args[0].value for call in calls if m.matches(call.func, coding)}
    return types, codecs


def _differs_in_case(was: cst.CSTNode, now: cst.CSTNode) -> bool:
    """Whether two names of a codec differ in upper and lower case only."""
    strings = isinstance(was, cst.SimpleString) and isinstance(now, cst.SimpleString)
    return strings and was.value.upper() == now.value


def _same_call(was: cst.CSTNode, now: cst.CSTNode) -> bool:
    """Whether both calls have the same effect by the definition of Python."""
    if not (isinstance(was, cst.Call) and isinstance(now, cst.Call)):
        return False
    before, after = ([arg.value for arg in call.args] for call in (was, now))
    if m.matches(was.func, m.Name("cast")):
        # `typing.cast` returns its second argument; the first is for the type checker.
        return len(before) == len(after) == 2 and before[1].deep_equals(after[1])
    if m.matches(was.func, m.Attribute(attr=m.Name("from_bytes") | m.Name("to_bytes"))):
        # "big" is the default byte order (since Python 3.11).
        big = len(before) == 2 and m.matches(before[1], m.SimpleString('"big"'))
        return big and len(after) == 1 and before[0].deep_equals(after[0])
    return False
