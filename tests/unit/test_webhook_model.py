"""Which events a webhook wants, and how they are put into a request."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wa_orchestrator.errors import InvalidBody
from wa_orchestrator.events.catalogue import EVENT_TYPES
from wa_orchestrator.events.envelopes import FORMATS, native
from wa_orchestrator.events.webhooks import check
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store.journal import GAP, JournalEntry, Page, gap_entry, with_gaps
from wa_orchestrator.worker_api.projector import EVENT_TYPES as WORKER_TYPES

ROOT = Path(__file__).resolve().parents[2]
ENTRY = JournalEntry(number=7, type="message.sent", session_id="worker_1", at=1_700_000_000_000, data={"to": "שלום"})


def webhook(**fields: object) -> Webhook:
    return Webhook(**{"webhook_id": "wh_1", "url": "https://app.example/in", "secret": "s" * 16, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("types", "kind", "wanted"),
    [
        ((), "anything", True),
        (("message.sent",), "message.sent", True),
        (("message.sent",), "message.sentimental", False),
        (("message.*",), "message.read", True),
        (("message.*",), "MESSAGE_RECEIVED", False),
        (("*",), "proxy.bad", True),
        (("proxy.*", "CONNECTED"), "CONNECTED", True),
    ],
)
def test_wanted_types(types: tuple[str, ...], kind: str, wanted: bool) -> None:
    assert webhook(types=types).wants(kind, "worker_1") is wanted


def test_wanted_sessions_and_metadata() -> None:
    assert webhook(sessions=("a", "b")).wants("x", "b")
    assert not webhook(sessions=("a", "b")).wants("x", "c")
    assert not webhook(sessions=("a",)).wants("x", ""), "events of no session"
    assert webhook(metadata={"c": "1"}).wants_session_like({"c": "1", "d": "2"})
    assert not webhook(metadata={"c": "1", "d": "2"}).wants_session_like({"c": "1"})


def test_the_request_carries_the_entry_and_its_signature() -> None:
    hook = webhook(headers={"Authorization": "Bearer x"})
    made = native(ENTRY, hook, {}, 1_700_000_000_123)
    assert json.loads(made.body) == ENTRY.view()
    signed = hmac.new(b"s" * 16, b"1700000000123." + made.body, hashlib.sha256).hexdigest()
    assert made.headers["X-Webhook-Signature"] == f"sha256={signed}"
    assert made.headers["X-Webhook-Timestamp"] == "1700000000123"
    assert made.headers["X-Webhook-Id"] == "wh_1"
    assert made.headers["X-Webhook-Event"] == "message.sent"
    assert made.headers["X-Webhook-Event-Number"] == "7"
    assert made.headers["Authorization"] == "Bearer x"
    assert native(ENTRY, hook, {}, 1_700_000_000_123) == made, "a repeat is the same request"


def _snippet(language: str) -> str:
    text = (ROOT / "docs" / "howto" / "webhooks.md").read_text(encoding="utf-8")
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found
    return found[1]


def test_the_documented_python_check_accepts_the_real_one_and_no_other() -> None:
    place: dict[str, object] = {}
    exec(_snippet("python"), place)  # noqa: S102 - our own page
    verify = place["verify"]
    assert callable(verify)
    made = native(ENTRY, webhook(), {}, 1_700_000_000_000)
    stamp, given = made.headers["X-Webhook-Timestamp"], made.headers["X-Webhook-Signature"]
    now = 1_700_000_010.0
    assert verify("s" * 16, stamp, given, made.body, now=now)
    assert not verify("t" * 16, stamp, given, made.body, now=now)
    assert not verify("s" * 16, stamp, given, made.body + b" ", now=now)
    assert not verify("s" * 16, stamp, given, made.body, now=now + 600), "an old request sent again"


def test_the_documented_node_check_accepts_the_real_one_and_no_other(tmp_path: Path) -> None:
    node = Path(sys.executable).parent / "node"
    program = str(node) if node.exists() else shutil.which("node")
    assert program, "Node is part of the set-up"
    made = native(ENTRY, webhook(), {}, 1_700_000_000_000)
    given = json.dumps([made.headers["X-Webhook-Timestamp"], made.headers["X-Webhook-Signature"]])
    script = tmp_path / "check.mjs"
    script.write_text(
        _snippet("js")
        + f"const [stamp, sig] = {given}; const body = Buffer.from({json.dumps(made.body.decode())});\n"
        + "const now = 1700000010000; const s = 's'.repeat(16);\n"
        + "console.log(verify(s, stamp, sig, body, now), verify(s + 'x', stamp, sig, body, now), "
        + "verify(s, stamp, sig, body, now + 600000));\n",
        encoding="utf-8",
    )
    done = subprocess.run([program, script], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == ["true", "false", "false"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"types": ("message.sentt",)}, "types"),
        ({"types": ("nothing.*",)}, "types"),
        ({"format": "xml"}, "format"),
        ({"headers": {"Host": "x"}}, "headers"),
        ({"headers": {"X-Webhook-Signature": "x"}}, "headers"),
        ({"headers": {"A": "b\r\nc: d"}}, "headers"),
        ({"headers": {"a b": "c"}}, "headers"),
    ],
)
def test_what_could_never_work_is_refused(fields: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidBody) as caught:
        check(webhook(**fields))
    assert caught.value.details
    assert caught.value.details["field"] == field


def test_every_event_that_is_noted_is_in_the_catalogue() -> None:
    lua = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.lua"))
    noted = set(re.findall(r"note\('([a-zA-Z_.]+)'", lua))
    python = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    noted |= set(re.findall(r"operations\.note\(\s*\"([a-z_.]+)\"", python))
    noted |= set(WORKER_TYPES)
    noted -= {"PING", "message."}  # not noted; followed by a state
    missing = noted - set(EVENT_TYPES)
    assert not missing, f"events/catalogue.py does not describe {sorted(missing)}"


def test_every_format_is_a_function_of_the_entry_alone() -> None:
    for name, packed in FORMATS.items():
        one, two = (packed(ENTRY, webhook(format=name), {}, 5) for _ in range(2))
        assert one == two, name


def test_missing_numbers_show_as_gaps() -> None:
    def entry(number: int) -> JournalEntry:
        return JournalEntry(number=number, type="x", session_id="", at=1, data={})

    seen = [(e.number, e.type, e.data) for e in with_gaps(2, [entry(3), entry(6), entry(7)])]
    assert seen == [(3, "x", {}), (5, GAP, {"from": 4, "to": 5}), (6, "x", {}), (7, "x", {})]
    assert gap_entry(4, 5, at=1).view()["data"] == {"from": 4, "to": 5}
    assert Page([entry(5)], 5, 9).gap_after(2) == (3, 4)
    assert Page([entry(3)], 3, 9).gap_after(2) is None
    assert Page([], 10, 9).gap_after(2) == (3, 9), "everything was cut off"
    assert Page([], 1, 9).gap_after(9) is None
