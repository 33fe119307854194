"""Puts a Lua script together: of the shared parts only what it uses, and key names written out. Pure.

The store runs a script from its first line each time. Sixty functions that are made and not called cost it as much as a
dozen commands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_KEY = re.compile(r"\bK\.([a-z_]+)\(")
_COMMENT = re.compile(r"^\s*--.*$|\s+-- .*$", re.MULTILINE)
_DEFINES = re.compile(r"local (?:function )?(\w+)")
_NAME = re.compile(r"[A-Za-z_]\w*")


def assembled(own: str, shared: str, keys: Mapping[str, str]) -> str:
    """`keys`: a key's name and its pattern, with {} for what differs."""
    own, shared = _COMMENT.sub("", own), _COMMENT.sub("", shared)
    return written_out(f"{used_of(shared, own)}\n{own}", keys)


def used_of(shared: str, own: str) -> str:
    """The definitions of `shared` that `own` needs, and those that they need, in their order."""
    pieces = [piece for piece in re.split(r"^(?=local )", shared, flags=re.MULTILINE) if piece.strip()]
    needed, seen = [], set(_NAME.findall(own))
    for piece in reversed(pieces):  # a definition stands before its users
        found = _DEFINES.match(piece)
        if found is None:
            raise ValueError(f"shared Lua parts hold definitions only, not: {piece.splitlines()[0]}")
        if found[1] in seen:
            needed.append(piece)
            seen.update(_NAME.findall(piece))
    return "".join(reversed(needed))


def written_out(text: str, keys: Mapping[str, str]) -> str:
    """`K.session(id)` becomes `('session:' .. (id))`."""
    while found := _KEY.search(text):
        end = _closing(text, found.end())
        before, slot, after = keys[found[1]].partition("{}")
        name = f"'{before}'"
        if slot:
            name += f" .. ({text[found.end() : end]})"
            name = f"({name} .. '{after}')" if after else f"({name})"
        text = f"{text[: found.start()]}{name}{text[end + 1 :]}"
    return text


def _closing(text: str, start: int) -> int:
    """Where the bracket that was opened just before `start` closes; keys' arguments hold no brackets in strings."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return at
    raise ValueError(f"no closing bracket: {text[start - 20 : start + 40]!r}")
