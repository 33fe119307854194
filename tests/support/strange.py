"""Strange values and strange bytes, the same in every run."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

DEPTH = "[" * 3000 + "]" * 3000

_TEXT = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["", " ", "\x00", "\ud7ff\uffff", "a" * 5000, "null", "NaN", "-1", "9" * 400, "972521111111", "msg_" + "0" * 18,
         "../../etc/passwd", "%00", "{{7*7}}", "' OR 1=1 --", "\r\nX-Injected: 1", "🏴" * 300, "\u202e", "fuzzed",
         "http://127.0.0.1:1/", "file:///etc/passwd", "data:text/plain;base64,AAAA", "socks5h://u:p@h:1"]
    ),
)  # fmt: skip
_NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -1, 1, 2**31, 2**53, 2**53 + 1, 2**63, 10**400, 1e308, -0.0, 253_402_300_799_999]),
)
LEAVES = st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXT)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4), max_leaves=12
)


def fuzz(examples: int) -> settings:
    """Derandomized: a failure in CI is the same failure here."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@st.composite
def changed(draw: st.DrawFn, good: dict[str, Any], *, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """A good object with some fields gone, replaced or added."""
    made = dict(good)
    for name in draw(st.lists(st.sampled_from([*good, *more, "unknown"]), min_size=1, max_size=3)):
        if draw(st.integers(0, 5)) == 0:
            made.pop(name, None)
        else:
            made[name] = draw(VALUES)
    return made


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """Good bytes with a few of them cut out, doubled or replaced."""
    raw = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(raw) - 1)))
        match draw(st.integers(0, 3)):
            case 0:
                del raw[at : at + draw(st.integers(1, 30))]
            case 1:
                raw[at:at] = draw(st.binary(min_size=1, max_size=8))
            case 2:
                raw[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case 3:
                raw[at:at] = raw[at : at + draw(st.integers(1, 60))]
    return bytes(raw)


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
