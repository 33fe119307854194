"""Scripts hold what they use and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wa_orchestrator.store import scripts
from wa_orchestrator.store.assembly import assembled, used_of, written_out

_KEYS = {"all": "sessions:all", "session": "session:{}", "events": "session:{}:events"}

_SHARED = """\
local MOST = 5  -- a comment
-- Another.
local function first(id) return redis.call('GET', K.session(id)) end
local function second(id)
  return first(id) + MOST
end
local function unused() return second('x') end
"""


def test_only_what_is_used_comes_along_with_what_that_uses() -> None:
    assert used_of(_SHARED, "return first('a')").startswith("local function first(")
    whole = used_of(_SHARED, "return second('a')")
    assert [line.split("(")[0] for line in whole.splitlines() if line.startswith("local")] == [
        "local MOST = 5  -- a comment", "local function first", "local function second",
    ]  # fmt: skip
    assert used_of(_SHARED, "return 1") == ""


def test_something_that_runs_in_a_shared_part_is_refused() -> None:
    with pytest.raises(ValueError, match="definitions only"):
        used_of("redis.call('PING')\n" + _SHARED, "return 1")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("K.all()", "'sessions:all'"),
        ("K.session(id)", "('session:' .. (id))"),
        ("K.session(m[5] or '')", "('session:' .. (m[5] or ''))"),
        ("K.events(f(a, g(b)))", "('session:' .. (f(a, g(b))) .. ':events')"),
        ("K.session(get(K.all()))", "('session:' .. (get('sessions:all')))"),
    ],
)
def test_key_names_are_written_out(given: str, expected: str) -> None:
    assert written_out(f"x({given}, 1)", _KEYS) == f"x({expected}, 1)"


def test_comments_go_and_code_stays() -> None:
    text = assembled("-- what it does\nreturn first('a -b') -- why\n", _SHARED, _KEYS)
    assert "--" not in text
    assert text.endswith("return first('a -b')\n")


@pytest.mark.parametrize("name", scripts.script_names())
def test_every_script_defines_each_shared_name_that_it_uses(name: str) -> None:
    text = scripts.load(name).text
    shared = "".join(part.read_text() for part in Path(scripts.__file__).parent.glob("lua/shared*.lua"))
    known = set(re.findall(r"^local (?:function )?(\w+)", shared, re.MULTILINE))
    defined = set(re.findall(r"\blocal (?:function )?(\w+)", text))
    called = set(re.findall(r"(?<![.:\w])(\w+)\(", text)) | set(re.findall(r"\b[A-Z][A-Z_]+\b", text))
    assert (called & known) <= defined
    assert "K." not in text
    assert known
