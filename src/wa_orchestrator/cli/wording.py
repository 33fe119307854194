"""The server's sentences in the words of the command line: commands and options instead of routes and fields."""

from __future__ import annotations

import re

_COMMAND = "`wa-orchestrator "
# what the server says → what helps whoever types commands
_PHRASES = {
    "GET /api/sessions lists the sessions.": _COMMAND + "sessions list` shows them.",
    "GET /api/v1/proxies lists the proxies.": _COMMAND + "proxies list` shows them.",
    "GET /api/v1/backups lists the backups.": _COMMAND + "backups list` shows them.",
    "GET /api/v1/keys lists the keys.": _COMMAND + "keys list` shows them.",
    "GET /api/v1/webhooks lists them.": _COMMAND + "webhooks list` shows them.",
    "GET /api/v1/profiles lists them.": "The page Alerts of the dashboard shows them.",
    "GET /api/v1/suppression/{phone} says since when": _COMMAND + "suppression explain NUMBER` says since when",
    "after a while (MESSAGE_KEEP_DAYS).": "after a while. " + _COMMAND + "messages list` shows them.",
    "POST /api/v1/proxies/{id}/check": _COMMAND + "proxies check ID`",
    "POST /api/sessions/{id}/start": _COMMAND + "sessions start ID`",
    "POST /upload/profiles": "on the page Alerts of the dashboard",
    "Upload it first: POST /api/v1/media.": "Send it again.",
    "Upload the file first (POST /api/v1/media) and send its mediaId, or send its URL.": "Write less.",
    " (PATCH /api/v1/keys/{id})": "",
    "Send the API key in the header X-Api-Key.": "Give the API key with --api-key or API_KEY.",
    "Send an object with Content-Type: application/json.": "",
    "Add ?drain=true to": "Add --drain to",
    "send rebind:true to": "add --rebind to",
    "Send defer:true to": "Add --defer to",
    "Send force:true to": "Add --force to",
    "or choose other sessions": "or choose others with --session",
    "Set BACKUP_PASSPHRASE, or send the passphrase along.": "Give its passphrase with --passphrase-file.",
    "send the one it was made with": "give the one it was made with, by --passphrase-file",
    "Import its export to bring it back.": "To bring it back: " + _COMMAND + "sessions import FILE`.",
    "Ask again in a second; a new one comes every 20 to 60 seconds.":
        "Wait for one: " + _COMMAND + "sessions qr ID --wait`.",
    "Add a proxy, or free a slot.": "See " + _COMMAND + "proxies list`; add one with " + _COMMAND + "proxies add`.",
    "Wait as long as Retry-After says": "Wait a little",
    "Write `to` as": "Write the recipient as",
    "This Idempotency-Key was used with another body": "This --key was used for another message",
}  # fmt: skip
# fields of a request → what was typed
_TYPED = {
    "to": "TO", "message": "TEXT", "scheduleAt": "--at", "expiresAt": "--expires", "reference": "--reference",
    "priority": "--priority", "idempotencyKey": "--key", "Idempotency-Key": "--key", "phone": "--phone",
    "from": "--from", "sessionId": "--session", "status": "--status", "label": "--label", "hours": "--hours",
    "timezone": "--timezone", "daily": "--daily", "perMinute": "--per-minute", "minDelayMs": "--min-delay",
    "maxDelayMs": "--max-delay", "burst": "--burst", "preset": "--preset", "until": "--until",
    "rights": "--right", "ratePerMinute": "--rate", "note": "--note", "name": "NAME", "types": "--types",
    "sessions": "--session", "after": "--after", "proxy": "--proxy", "url": "URL", "reason": "--reason",
    "passphrase": "--passphrase-file",
}  # fmt: skip
_ABOUT_A_FIELD = re.compile(r"^(?:body\.)?([A-Za-z][\w-]*)((?:\.[\w-]+)*): (.+)$", re.DOTALL)
_ONE_OF = re.compile(r"Input should be ('.+')")
_NO_SUCH_WEBHOOK = "There is no webhook with this id. " + _COMMAND + "webhooks list` shows them."


def in_operators_words(sentence: str) -> str:
    for said, helps in _PHRASES.items():
        sentence = sentence.replace(said, helps)
    about = _ABOUT_A_FIELD.match(sentence)
    if about is None:
        return sentence.strip()
    field, _, rest = about.groups()
    if field == "webhook_id":  # an id of another form than ours
        return _NO_SUCH_WEBHOOK
    if field not in _TYPED:
        return sentence.strip()
    return f"{_TYPED[field]}: {_of_options(rest)}"


def _of_options(text: str) -> str:
    if one_of := _ONE_OF.search(text):
        return f"write {one_of[1].replace(chr(39), '')}."
    for field in ("scheduleAt", "expiresAt", "minDelayMs", "maxDelayMs"):
        text = re.sub(rf"\b{field}\b", _TYPED[field], text)
    return re.sub(r"\bnull\b", "none", text).replace('"', "")
