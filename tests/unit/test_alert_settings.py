"""The settings of alerts: a slip stops the start with a sentence."""

from __future__ import annotations

import pytest

from wa_orchestrator.errors import SettingsError
from wa_orchestrator.settings import load_settings


def test_kinds_are_muted_by_name() -> None:
    assert load_settings({"ALERT_MUTED": " connected, BACKUP_DONE ,"}).alert_muted == "backup_done,connected"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ALERT_MUTED", "conected", "there is no alert 'conected'"),
        ("ALERT_MIN_SEVERITY", "bad", "must be one of info, warning, critical"),
        ("ALERT_LANGUAGE", "fr", "must be one of en, he"),
        ("TELEGRAM_API_URL", "api.telegram.org", "must look like https://api.telegram.org"),
        ("LOW_FREE_SLOTS", "-1", "must be between"),
    ],
)
def test_a_slip_is_told(name: str, value: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load_settings({name: value})
