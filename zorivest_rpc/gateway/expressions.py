"""What a regular expression may cost, told from its text: whether it may try for ever, and how large it becomes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

__all__ = ["has_nested_quantifier", "weigh_pattern"]

_LIMIT: Final = 1_000_000  # more is not counted
_WIDE: Final = 8  # what stands for nearly every character, in units of one letter
_BY_PROPERTY: Final = 250  # a property of Unicode has hundreds of ranges


def has_nested_quantifier(pattern: str) -> bool:
    """Whether a group that repeats holds something whose length varies: what backtracking can take for ever on.

    `?` around a group repeats nothing, and `{3}` inside one varies nothing."""
    varies = [False]  # for the pattern itself, and for each open group
    for atom, repeats, varying, _ in _atoms(pattern):
        if atom == "(":
            varies.append(False)  # a `?` that follows says what kind of group it is, and is read as a letter
            continue
        inside = varies.pop() if atom == ")" and len(varies) > 1 else False
        if repeats and inside:
            return True
        varies[-1] = varies[-1] or inside or varying
    return False


def weigh_pattern(pattern: str) -> int:
    """Its length with its counted repetitions written out, as they are when it is compiled, in units of one letter."""
    sums = [0]  # of the pattern itself, and of each open group
    for atom, _, _, times in _atoms(pattern):
        if atom == "(":
            sums.append(1)
            continue
        weight = sums.pop() if atom == ")" and len(sums) > 1 else _weigh_atom(atom)
        sums[-1] += min(weight * times, _LIMIT)
    return sum(sums)


def _weigh_atom(atom: str) -> int:
    if "\\p" in atom or "\\P" in atom:
        return _BY_PROPERTY
    is_wide = atom == "." or atom.startswith("[^") or any(f"\\{letter}" in atom for letter in "WDS")
    return _WIDE if is_wide else 1


def _atoms(pattern: str) -> Iterator[tuple[str, bool, bool, int]]:
    """Each letter, escape, class and bracket; whether it repeats, whether its length varies, and how often it is
    written out. What follows an opening bracket says what kind of group it is, and is read as a letter."""
    position = 0
    while position < len(pattern):
        start = position
        if pattern[position] == "\\":
            close = pattern.find("}", position) if pattern[position + 1 : position + 3] in ("p{", "P{") else -1
            position = max(position + 2, close + 1)
        elif pattern[position] == "[":
            position = _skip_class(pattern, position)
        else:
            position += 1
        atom, repeats, varies, times = pattern[start:position], False, False, 1
        end = position if atom == "(" else -1
        while end != position:  # one may follow another
            end = position
            again, varying, copies, position = _quantifier(pattern, position)
            repeats, varies, times = repeats or again, varies or varying, min(times * copies, _LIMIT)
        yield atom, repeats, varies, times


def _quantifier(pattern: str, position: int) -> tuple[bool, bool, int, int]:
    """Whether a quantifier here repeats (twice or more), whether it varies, the copies, and where it ends."""
    char = pattern[position : position + 1]
    if char and char in "*+?":
        return char != "?", True, 1, position + 1
    close = pattern.find("}", position) if char == "{" else -1
    low, comma, high = pattern[position + 1 : max(close, 0)].partition(",")
    if close < 0 or not _is_number(low) or (high and not _is_number(high)):
        return False, False, 1, position
    least, most = int(low), int(high) if high else None
    repeats = (comma != "" and most is None) or (most if comma and most is not None else least) > 1
    # What makes it lazy is read as a letter, which makes no difference here.
    return repeats, bool(comma) and high != low, max(least, most or 0, 1), close + 1


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _skip_class(pattern: str, position: int) -> int:
    position += 1
    if pattern.startswith("^", position):
        position += 1
    if pattern.startswith("]", position):
        position += 1
    while position < len(pattern) and pattern[position] != "]":
        position += 2 if pattern[position] == "\\" else 1
    return position + 1
