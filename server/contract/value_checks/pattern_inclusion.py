"""Whether one pattern of JSON Schema (ECMA 262) matches every text that another one matches.

Read are literals, sets, `\\d`, `\\w`, `\\s`, groups, alternatives, repetitions, `^` and `$`. What a set may mean beyond
ASCII is taken as wide in the inner pattern and as narrow in the outer one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

_MOST_STATES, _MOST_REPEATS, _MOST_GROUPS = 3_000, 1_000, 100
_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_BEGIN, _END = "^", "$"
_COUNTED = re.compile(r"\{([0-9]+)(,?)([0-9]*)\}")
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}
_LINE_ENDS = ((10, 10), (13, 13), (0x2028, 0x2029))
_CLASSES = {
    "d": ((48, 57),),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "s": ((9, 13), (32, 32)),
}

Ranges = tuple[tuple[int, int], ...]  # of code points, sorted, without overlaps
Node = tuple[Any, ...]  # ("set", Ranges), ("all", nodes), ("any", nodes), ("repeat", node, least, most), (_BEGIN,), ...


class UnreadPattern(Exception):
    """A pattern that is not read here, or one that is too large."""


class Lengths(NamedTuple):
    """The least and the greatest length of the texts that a pattern matches; None without a greatest."""

    least: int
    most: int | None


def text_beyond(inner: str, outer: str) -> str | None:
    """A text that `inner` matches and `outer` does not, a shortest one; None if there is none. Raises `UnreadPattern`
    where that cannot be decided."""
    first, second = _automaton(inner, True), _automaton(outer, False)
    start = (first.start(), second.start())
    texts, waiting = {start: ""}, [start]
    for pair in waiting:
        mine, theirs = pair
        if first.accepts(mine) and not second.accepts(theirs):
            return texts[pair]
        for character in _representatives((*first.sets(mine), *second.sets(theirs))):
            moved = first.move(mine, character)
            if moved[0] and (following := (moved, second.move(theirs, character))) not in texts:
                texts[following] = texts[pair] + chr(character)
                waiting.append(following)
        if len(waiting) > _MOST_STATES:
            raise UnreadPattern
    return None


def is_included(inner: str, outer: str) -> bool:
    """Whether `outer` matches each text that `inner` matches; False where that cannot be decided."""
    try:
        return text_beyond(inner, outer) is None
    except UnreadPattern:
        return False


def lengths(pattern: str) -> Lengths:
    """The lengths of the texts that a pattern matches: bounds, which may be wider than the true ones."""
    try:
        node = _parsed(pattern, True)
    except UnreadPattern:
        return Lengths(0, None)
    least, most = _width(node)
    return Lengths(least, most if _is_anchored(node, _BEGIN, 0) and _is_anchored(node, _END, -1) else None)


def numbers_of(pattern: str, most_digits: int) -> Iterator[int]:
    """Of each count of digits the least and the greatest number whose decimal digits a pattern matches, without leading
    zeros. Raises `UnreadPattern` for a pattern that is not read."""
    automaton = _automaton(pattern, True)
    states = {automaton.start(): ("", "")}
    for length in range(1, most_digits + 1):
        following: dict[_State, tuple[str, str]] = {}
        for state, (low, high) in states.items():
            for digit in "0123456789" if length > 1 else "123456789":
                moved = automaton.move(state, ord(digit))
                known = following.get(moved, (low + digit, high + digit))
                if moved[0]:
                    following[moved] = min(known[0], low + digit), max(known[1], high + digit)
        states = following
        found = [text for state, both in states.items() if automaton.accepts(state) for text in both]
        yield from {int(min(found)): None, int(max(found)): None} if found else ()


def pattern_of_numbers(least: int, most: int) -> str:
    """A pattern of the decimal digits of the whole numbers from `least`, which is not negative, to `most`."""
    parts: list[str] = []
    while least <= most:
        # The largest block of numbers that begins here: all have the same first digits, and any digits follow.
        zeros = 0
        while least and least % 10 ** (zeros + 1) == 0 and least + 10 ** (zeros + 1) - 1 <= most:
            zeros += 1
        block = 10**zeros
        digit = least // block % 10
        count = min(9 - digit, (most - least + 1) // block - 1)
        head = str(least // block)[:-1]
        more = f"[0-9]{{{zeros}}}" if zeros else ""
        parts.append(f"{head}[{digit}-{digit + count}]{more}")
        least += (count + 1) * block
    return f"^(?:{'|'.join(parts)})$"


_State = tuple[frozenset[int], bool]  # the states, and whether nothing was read yet


class _Automaton:
    """The pattern as an automaton, whose edges have a set of characters, an anchor, or None for no character."""

    def __init__(self, node: Node) -> None:
        self._edges: list[list[tuple[Any, int]]] = []
        anything: Node = ("repeat", ("set", ((0, _LAST),)), 0, None)
        self._first = self._new()
        self._last = self._add(("all", [anything, node, anything]), self._first)
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def start(self) -> _State:
        return self._reached(frozenset({self._first}), _BEGIN), True

    def accepts(self, state: _State) -> bool:
        return self._last in self._reached(state[0], _BEGIN + _END if state[1] else _END)

    def sets(self, state: _State) -> list[Ranges]:
        return [label for one in state[0] for label, _ in self._edges[one] if type(label) is tuple]

    def move(self, state: _State, character: int) -> _State:
        following = frozenset(
            target
            for one in state[0]
            for label, target in self._edges[one]
            if type(label) is tuple and any(low <= character <= high for low, high in label)
        )
        return self._reached(following, ""), False

    def _reached(self, states: frozenset[int], anchors: str) -> frozenset[int]:
        key = states, anchors
        if key not in self._known:
            found, waiting = {*states}, [*states]
            while waiting:
                for label, target in self._edges[waiting.pop()]:
                    if target not in found and (label is None or (type(label) is str and label in anchors)):
                        found.add(target)
                        waiting.append(target)
            self._known[key] = frozenset(found)
        return self._known[key]

    def _new(self) -> int:
        self._edges.append([])
        if len(self._edges) > _MOST_STATES:
            raise UnreadPattern
        return len(self._edges) - 1

    def _add(self, node: Node, start: int) -> int:
        """Add a part that begins at a state. Returns the state at its end."""
        kind = node[0]
        if kind == "all":
            for part in node[1]:
                start = self._add(part, start)
            return start
        if kind == "repeat":
            _, repeated, least, most = node
            return self._repeat(repeated, least, most, start)
        end = self._new()
        if kind == "any":
            for part in node[1]:
                begin = self._new()
                self._edges[start].append((None, begin))
                self._edges[self._add(part, begin)].append((None, end))
        else:
            self._edges[start].append((node[1] if kind == "set" else kind, end))
        return end

    def _repeat(self, node: Node, least: int, most: int | None, start: int) -> int:
        for _ in range(least):
            start = self._add(node, start)
        end = self._new()
        self._edges[start].append((None, end))
        if most is None:
            begin = self._new()
            self._edges[start].append((None, begin))
            last = self._add(node, begin)
            self._edges[last] += [(None, begin), (None, end)]
            return end
        for _ in range(most - least):
            start = self._add(node, start)
            self._edges[start].append((None, end))
        return end


@lru_cache(maxsize=256)
def _automaton(pattern: str, wide: bool) -> _Automaton:
    return _Automaton(_parsed(pattern, wide))


@lru_cache(maxsize=256)
def _parsed(pattern: str, wide: bool) -> Node:
    if pattern.count("(") > _MOST_GROUPS:
        raise UnreadPattern
    parser = _Parser(pattern, wide)
    node = parser.alternatives()
    if parser.rest:
        raise UnreadPattern
    return node


class _Parser:
    def __init__(self, pattern: str, wide: bool) -> None:
        self.rest = pattern
        self._wide = wide  # whether sets are taken as wide as they may be

    def alternatives(self) -> Node:
        found = [self._sequence()]
        while self.rest.startswith("|"):
            self._take(1)
            found.append(self._sequence())
        return found[0] if len(found) == 1 else ("any", found)

    def _take(self, count: int) -> str:
        taken, self.rest = self.rest[:count], self.rest[count:]
        if len(taken) < count:
            raise UnreadPattern
        return taken

    def _sequence(self) -> Node:
        found: list[Node] = []
        while self.rest and self.rest[0] not in "|)":
            found.append(self._repeated(self._atom()))
        return ("all", found)

    def _repeated(self, node: Node) -> Node:
        bounds: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        sign = self.rest[:1]
        counted = _COUNTED.match(self.rest)
        if sign in bounds:
            least, most = bounds[sign]
            self._take(1)
        elif counted is not None:
            self._take(len(counted[0]))
            least = int(counted[1])
            most = (int(counted[3]) if counted[3] else None) if counted[2] else least
        else:
            return node
        if self.rest.startswith("?"):  # lazy: it matches the same texts
            self._take(1)
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            raise UnreadPattern
        return ("repeat", node, least, most)

    def _atom(self) -> Node:
        character = self._take(1)
        if character in (_BEGIN, _END):
            return (character,)
        if character == "(":
            if self.rest.startswith("?") and self._take(2) != "?:":
                raise UnreadPattern
            node = self.alternatives()
            if self._take(1) != ")":
                raise UnreadPattern
            return node
        if character == "[":
            return ("set", self._set())
        if character == ".":
            return ("set", ((0, _LAST),) if self._wide else _without(_LINE_ENDS))
        if character in "*+?{}])":
            raise UnreadPattern
        return ("set", self._escaped() if character == "\\" else _one(ord(character)))

    def _escaped(self) -> Ranges:
        character = self._take(1)
        if character.lower() in _CLASSES:
            return _class(character, self._wide)
        if character in _CONTROLS:
            return _one(_CONTROLS[character])
        if character in "xu":
            digits = self._take(2 if character == "x" else 4)
            if not re.fullmatch("[0-9A-Fa-f]+", digits) or int(digits, 16) in _SURROGATES:
                raise UnreadPattern
            return _one(int(digits, 16))
        if character.isalnum() or not character.isascii():
            raise UnreadPattern
        return _one(ord(character))

    def _set(self) -> Ranges:
        is_negated = self.rest.startswith("^")
        if is_negated:
            self._take(1)
            self._wide = not self._wide
        found: list[tuple[int, int]] = []
        while not self.rest.startswith("]"):
            low = self._member()
            if self.rest.startswith("-") and not self.rest.startswith("-]"):
                self._take(1)
                high = self._member()
                if len(low) != 1 or len(high) != 1 or low[0][0] > high[0][1] or low[0][0] != low[0][1]:
                    raise UnreadPattern
                low = ((low[0][0], high[0][1]),)
            found += low
        self._take(1)
        if is_negated:
            self._wide = not self._wide
        return _without(found) if is_negated else tuple(sorted(found))

    def _member(self) -> Ranges:
        character = self._take(1)
        if character == "[":  # ECMA 262 with the flag v reads it in another way
            raise UnreadPattern
        if character == "\\" and self.rest.startswith("b"):
            raise UnreadPattern
        return self._escaped() if character == "\\" else _one(ord(character))


def _one(character: int) -> Ranges:
    return ((character, character),)


def _class(letter: str, wide: bool) -> Ranges:
    r"""The set of `\d`, or of another letter: a reader may count characters beyond ASCII to it."""
    ascii_only = _CLASSES[letter.lower()]
    if letter.isupper():
        return _without(ascii_only) if wide else _without((*ascii_only, (128, _LAST)))
    return (*ascii_only, (128, _LAST)) if wide else ascii_only


def _without(ranges: Iterable[tuple[int, int]]) -> Ranges:
    found, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return (*found, (start, _LAST)) if start <= _LAST else tuple(found)


def _representatives(sets: Iterable[Ranges]) -> Iterator[int]:
    """One character of each class of characters that the sets do not tell apart."""
    bounds = {0} | {bound for one in sets for low, high in one for bound in (low, high + 1) if bound <= _LAST}
    for bound in sorted(bounds):
        yield _SURROGATES.stop if bound in _SURROGATES else bound


def _width(node: Node) -> Lengths:
    kind = node[0]
    if kind == "set":
        return Lengths(1, 1)
    if kind in (_BEGIN, _END):
        return Lengths(0, 0)
    if kind == "repeat":
        least, most = _width(node[1])
        return Lengths(least * node[2], None if most is None or node[3] is None else most * node[3])
    widths = [_width(part) for part in node[1]]
    ends = [most for _, most in widths]
    known = [most for most in ends if most is not None]
    join = sum if kind == "all" else max
    least = sum(one for one, _ in widths) if kind == "all" else min(one for one, _ in widths)
    return Lengths(least, join(known) if len(known) == len(ends) else None)


def _is_anchored(node: Node, anchor: str, place: int) -> bool:
    """Whether each text that a part matches begins or ends at the anchor."""
    if node[0] == "any":
        return all(_is_anchored(part, anchor, place) for part in node[1])
    return node[0] == anchor or (node[0] == "all" and bool(node[1]) and _is_anchored(node[1][place], anchor, place))
