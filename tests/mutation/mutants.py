"""Mutants: every small change of a source file that mutmut knows, but for those that no behaviour can depend on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import Mutation, create_mutations


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small change: in which module and line, what stood there and what stands there now."""

    module: str
    line: int
    was: str
    now: str
    tree: cst.Module
    mutation: Mutation

    @property
    def name(self) -> str:
        """Short, for a list."""
        return f"{self.module}:{self.line}  {' '.join(self.was.split())[:60]}  ->  {' '.join(self.now.split())[:60]}"

    def source(self) -> str:
        """The module's whole text with the change."""
        return self.tree.deep_replace(self.mutation.original_node, self.mutation.mutated_node).code  # type: ignore[arg-type]


def mutants_of(root: Path, module: str) -> list[Mutant]:
    """The mutants of a module (`server/money.py`), in the order of the source."""
    tree, mutations, _, _ = create_mutations(module, (root / module).read_text())
    # mutmut has made a tree of its own; positions are asked of that very one.
    lines = MetadataWrapper(tree, unsafe_skip_copy=True).resolve(PositionProvider)
    types, codecs = _types_and_codecs(tree)
    found = []
    for mutation in mutations:
        before, after = mutation.original_node, mutation.mutated_node
        # What stands outside every function is names, types and slots: most changes of it change nothing.
        if mutation.contained_by_top_level_function is None or _only_words(before) or before in types:
            continue
        if _same_call(before, after) or (before in codecs and _capitals(before, after)):
            continue
        place = lines.get(before)
        was, now = (tree.code_for_node(node) for node in (before, after))
        if was != now:
            found.append(Mutant(module, place.start.line if place else 0, was, now, tree, mutation))
    return found


def _only_words(was: cst.CSTNode) -> bool:
    """Whether it is a sentence: what it says is for people to read, and no test asks for its every word."""
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


def _capitals(was: cst.CSTNode, now: cst.CSTNode) -> bool:
    """Whether a codec is only named in capitals, which Python does not mind."""
    strings = isinstance(was, cst.SimpleString) and isinstance(now, cst.SimpleString)
    return strings and was.value.upper() == now.value


def _same_call(was: cst.CSTNode, now: cst.CSTNode) -> bool:
    """Whether Python promises that both calls do the same, whatever they are given."""
    if not (isinstance(was, cst.Call) and isinstance(now, cst.Call)):
        return False
    before, after = ([arg.value for arg in call.args] for call in (was, now))
    if m.matches(was.func, m.Name("cast")):
        # `typing.cast` gives back its second argument; the first is for the type checker.
        return len(before) == len(after) == 2 and before[1].deep_equals(after[1])
    if m.matches(was.func, m.Attribute(attr=m.Name("from_bytes") | m.Name("to_bytes"))):
        # "big" is how an integer's bytes are read and written when nothing is said (since Python 3.11).
        big = len(before) == 2 and m.matches(before[1], m.SimpleString('"big"'))
        return big and len(after) == 1 and before[0].deep_equals(after[0])
    return False
