"""Writes the reference pages that are made from the code: settings, store keys, errors, and the table of states.

make_reference.py           writes them
make_reference.py --check   writes nothing; exit status 1 when a page differs from the code
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from wa_orchestrator import errors, settings
from wa_orchestrator.events.catalogue import EVENT_TYPES
from wa_orchestrator.model.session import MOVES, Status
from wa_orchestrator.store import keys, scripts

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "wa_orchestrator"
REFERENCE = ROOT / "docs" / "reference"
CONCEPTS = ROOT / "docs" / "concepts.md"
MADE = "<!-- Made by scripts/make_reference.py from the code. Do not edit by hand. -->"

# what the id in a key's name is, by the first word of the key
_PARTS = {"phone": "phone", "queue": "phone", "lane": "phone", "proxy": "proxy", "counter": "proxy",
          "command": "command", "provision": "token"}  # fmt: skip


def words(text: str) -> str:
    """Text from the code as Markdown shows it: `<n>` is no HTML."""
    return text.replace("<", "&lt;")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def page(title: str, *parts: str) -> str:
    return "\n\n".join([MADE, f"# {title}", *parts]) + "\n"


# settings -------------------------------------------------------------------------------------------------------
def settings_page() -> str:
    parts = [
        "Every setting is an environment variable. A file `.env` in the folder where the command is started may hold "
        "them as `NAME=value` lines; the environment wins over it, and options of the command line win over both. "
        "Settings are read once, at start. A wrong value stops the start with a sentence that says what to fix.",
        "The unit is in the name: `_MS` milliseconds, `_BYTES` bytes, `_DAYS` days.",
    ]
    for group, rows in groupby(settings.described_settings(), key=lambda row: row[0]):
        shown = [
            (f"`{name}`", f"`{default}`" if default else "*empty*", words(help_)) for _, name, default, help_ in rows
        ]
        parts += [f"## {group}", table(("name", "default", "meaning"), shown)]
        if group == "Proxies":
            parts.append(
                "`PROXY_URL_1`, `PROXY_URL_2`, … each hold one proxy, `socks5h://user:pass@host:port`. They are added "
                "at every start; see [proxies](../howto/proxies.md)."
            )
    parts += [
        "## Read by the command line only",
        table(
            ("name", "default", "meaning"),
            [
                ("`ORCH_URL`", "*empty*", "Where the server is. Empty: what `up` wrote into the data folder."),
                ("`SIMULATOR_PROXIES`", "`5`", "How many SOCKS5 proxies the simulated WhatsApp offers."),
            ],
        ),
    ]
    return page("Settings", *parts)


# store keys -----------------------------------------------------------------------------------------------------
def shown_pattern(key: keys.Key) -> str:
    first_word = key.name.split("_", maxsplit=1)[0]
    return key.pattern.replace("{}", f"<{_PARTS.get(first_word, 'id')}>")


def script_row(name: str) -> tuple[str, str]:
    lines = (PACKAGE / "store" / "lua" / f"{name}.lua").read_text(encoding="utf-8").splitlines()
    about = next(line for line in lines if not line.startswith("-- uses:"))
    return f"`{name}`", words(about.removeprefix("-- "))


def store_keys_page() -> str:
    parts = [
        "Everything the server must remember is in the store (Redis or Valkey) under these keys. `<proxy>` is an id "
        "such as `px_0123456789ab`, made from host, port and user name: no key name carries a secret. The password of "
        "a proxy stands in `proxy:<proxy>`, so protect the store like a secret. Look as much as you like; change "
        "nothing by hand, the scripts below keep these keys in step with each other.",
    ]
    for owner, group in groupby(sorted(keys.ALL, key=lambda key: key.owner), key=lambda key: key.owner):
        rows = [(f"`{shown_pattern(key)}`", key.type, key.lifetime, words(key.holds)) for key in group]
        parts += [f"## Owned by `{owner}`", table(("key", "type", "lives", "holds"), rows)]
    parts += [
        "## The scripts that change them",
        "Each move is one Lua script, so it happens completely or not at all. The contract (arguments, answers, "
        "refusals) stands at the top of each file in `src/wa_orchestrator/store/lua/`.",
        table(("script", "what it does"), [script_row(name) for name in scripts.script_names()]),
    ]
    return page("Store keys", *parts)


# errors ---------------------------------------------------------------------------------------------------------
def errors_page() -> str:
    kinds = sorted(errors.by_code().items(), key=lambda item: (item[1].status, item[0]))
    rows = [
        (f"[`{code}`](../runbook.md#{code.lower()}-{kind.status})", str(kind.status), kind.sentence)
        for code, kind in kinds
    ]
    return page(
        "Errors",
        "Every error has one shape:",
        '```json\n{"error": {"code": "QR_NOT_READY", "message": "There is no QR code yet. …", '
        '"requestId": "9dfdaa1013334dc3"}}\n```',
        "`code` is stable: programs decide by it. `message` is for people and may be more exact than the sentence "
        "below. `details` is there when it helps, for example the field that is wrong or the session in the way. "
        "`requestId` is also in the header `X-Request-Id` and in the server's log. 429 and 503 carry `Retry-After`. "
        "Each code links to what to do about it.",
        table(("code", "status", "sentence"), rows),
    )


# events ---------------------------------------------------------------------------------------------------------
def events_page() -> str:
    rows = [
        (f"`{kind.name}`", words(kind.about),
         ", ".join(f"`{name}`" + (f" ({words(meaning)})" if meaning else "") for name, meaning in kind.data.items()))
        for kind in EVENT_TYPES.values()
    ]  # fmt: skip
    return page(
        "Events",
        "Every event has one shape, in [the journal, the live streams](../howto/events.md) and "
        "[webhooks](../howto/webhooks.md):",
        '```json\n{"number": 1042, "type": "message.sent", "sessionId": "worker_7", '
        '"timestamp": "2026-11-15T13:16:00.078+00:00", "data": {"messageId": "msg_…", …}}\n```',
        "`number` grows by one with every event of the installation. `sessionId` is null for what concerns no session. "
        "CAPITALS are what a session's worker reported, word by word; `thing.happened` is what the control plane did "
        "or found. Data that does not apply is empty or missing; new fields may be added, so ignore what you do not "
        "know. `GET /api/v1/events/types` answers with this list.",
        table(("type", "when", "data"), rows),
    )


# states ---------------------------------------------------------------------------------------------------------
def states_table() -> str:
    rows = [
        (f"`{source}`", *("·" if source is target else "✔" if target in MOVES[source] else "" for target in Status))
        for source in Status
    ]
    return table(("from ↓ to →", *(f"`{status}`" for status in Status)), rows)


def with_block(text: str, name: str, content: str) -> str:
    """The text with everything between the two marks of that name replaced."""
    begin, end = f"<!-- {name}: made by scripts/make_reference.py -->", f"<!-- end of {name} -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise SystemExit(f"the marks of {name} are missing: {begin} … {end}")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


# ----------------------------------------------------------------------------------------------------------------
def pages() -> dict[Path, str]:
    """Every made page with the text it should have."""
    return {
        REFERENCE / "settings.md": settings_page(),
        REFERENCE / "store-keys.md": store_keys_page(),
        REFERENCE / "errors.md": errors_page(),
        REFERENCE / "events.md": events_page(),
        CONCEPTS: with_block(CONCEPTS.read_text(encoding="utf-8"), "moves", states_table()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page differs")
    check: bool = parser.parse_args().check
    stale = [
        (file, text) for file, text in pages().items() if not file.is_file() or file.read_text(encoding="utf-8") != text
    ]
    for file, text in stale:
        if not check:
            file.write_text(text, encoding="utf-8")
        print(f"{'differs' if check else 'written'}: {file.relative_to(ROOT)}")
    if check and stale:
        raise SystemExit("run: .venv/bin/python scripts/make_reference.py")


if __name__ == "__main__":
    main()
