"""Looks for secrets in the files of the repository: keys, tokens, private keys. Exit status 1 when one is found.

secret_scan.py            all files that git knows (or would take)
secret_scan.py FILE …     these files only
What is found is named by place and kind; the secret itself is not repeated. Invented ones in tests are short or say so.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

KINDS = {
    "private key": re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
    "Telegram bot token": re.compile(r"\b[0-9]{8,10}:[A-Za-z0-9_-]{35}\b"),
    "GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,})\b"),
    "AWS key": re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    "Google key": re.compile(r"\bAIza[A-Za-z0-9_-]{35}\b"),
    "Slack token": re.compile(r"\bxox[abposr]-[A-Za-z0-9-]{20,}"),
    "npm or PyPI token": re.compile(r"\b(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{60,})\b"),
    "JSON web token": re.compile(r"\beyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{15,}"),
}
# these only when the part in brackets looks random: the words themselves stand in tests and names
RANDOM_KINDS = {
    "API key of this program": re.compile(r"\bwa_([A-Za-z0-9_-]{32})\b"),
    "WhatsApp credentials": re.compile(r"\"(?:private|advSecretKey)\"\s*:.{0,60}?\"([A-Za-z0-9+/]{43}=)\""),
    "assigned secret": re.compile(
        r"(?i)\b[\w-]*(?:secret|token|passw(?:or)?d|passphrase|api[_-]?key)[\w-]*[\"']?\s*[:=]\s*"
        r"[\"']?([A-Za-z0-9+/=_-]{20,})"
    ),
}
_RANDOM_BITS = 3.6  # per character: names have less, 20 random letters and digits more
_RANDOM_HEX_BITS = 3.0
_LOCK_FILES = frozenset({"package-lock.json"})
_MOST_BYTES = 2_000_000


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def looks_random(text: str) -> bool:
    """Letters of both cases with digits and much variety, or a long hexadecimal number; words and names are neither."""
    bits = -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())
    if re.fullmatch(r"[0-9a-f]{32,}", text):
        return bits > _RANDOM_HEX_BITS
    return all(re.search(kind, text) for kind in ("[a-z]", "[A-Z]", "[0-9]")) and bits > _RANDOM_BITS


def findings(text: str) -> Iterator[tuple[int, str]]:
    """(line, kind) of everything that looks like a secret."""
    for number, line in enumerate(text.splitlines(), start=1):
        for kind, pattern in KINDS.items():
            if pattern.search(line):
                yield number, kind
        for kind, pattern in RANDOM_KINDS.items():
            if any(looks_random(value) for value in pattern.findall(line)):
                yield number, kind


def scan(files: Iterable[Path]) -> list[str]:
    found = []
    for file in files:
        if file.name in _LOCK_FILES or not file.is_file() or file.stat().st_size > _MOST_BYTES:
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        place = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        found += [f"{place}:{line}: {kind}" for line, kind in findings(text)]
    return found


def main() -> int:
    found = scan([Path(name).resolve() for name in sys.argv[1:]] or tracked_files())
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
