"""Checks where alerts go: are bot and chat named, and does Telegram know them?"""

from __future__ import annotations

import asyncio

from wa_orchestrator.alerts.room import WHAT_TO_FIX
from wa_orchestrator.alerts.telegram import Telegram
from wa_orchestrator.doctor.finding import Finding, bad, good, skipped
from wa_orchestrator.doctor.patient import Patient


def alerts(patient: Patient) -> Finding:
    token, chat = patient.settings.telegram_bot_token, patient.settings.telegram_chat_id
    if not token and not chat:
        return skipped("alerts", "Off. Set TELEGRAM_BOT_TOKEN and TELEGRAM_CHAT_ID to hear of trouble.")
    if not token or not chat:
        missing = "TELEGRAM_CHAT_ID" if token else "TELEGRAM_BOT_TOKEN"
        return bad("alerts", f"Off: {missing} is missing.", f"Set {missing} too.")
    outcome = asyncio.run(Telegram(patient.settings).check())
    if outcome.refused:
        return bad("alerts", "Telegram refuses.", WHAT_TO_FIX[outcome.refused])
    if outcome.away:
        return bad("alerts", "Telegram cannot be reached.", "Check the way out of this server, or TELEGRAM_API_URL.")
    return good("alerts", "Telegram knows the bot and the chat.")
