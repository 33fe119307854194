"""One thing to tell: what happened to whom. Kept as JSON; the words are made when it is shown."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from wa_orchestrator.alerts.kinds import KINDS, Severity

State = Literal["raised", "told", "resolved"]
NAMED = 12  # so many subjects are named; of the rest the number is said


class Notice(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`raised` opens something that `resolved` ends; `told` is news without an end."""

    id: str = ""
    at: int
    state: State
    kind: str
    severity: Severity
    subjects: list[str]  # session:worker_7, proxy:px_…; the first NAMED at most
    count: int  # of all subjects
    since: int = 0
    facts: dict[str, Any] = {}
    names: dict[str, str] = {}  # how the subjects were called then
    quiet: bool = False  # for the journal only: the operator ended it himself

    @staticmethod
    def read(text: str) -> Notice | None:
        """None for one that this version does not know: written by a newer one, it must not hold up the others."""
        try:
            found = msgspec.json.decode(text, type=Notice)
        except msgspec.MsgspecError:
            return None
        return found if found.kind in KINDS and found.subjects else None

    @property
    def icon(self) -> str:
        return "✅" if self.state == "resolved" else KINDS[self.kind].icon

    @property
    def session_id(self) -> str:
        """The session it is about, if it is about one only."""
        ids = [subject.removeprefix("session:") for subject in self.subjects if subject.startswith("session:")]
        return ids[0] if len(ids) == 1 == self.count else ""
