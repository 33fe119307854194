"""What the server says is told in the words of the command line: no routes, no fields of a request."""

from __future__ import annotations

import re

import pytest

from wa_orchestrator import errors
from wa_orchestrator.cli.wording import in_operators_words

# only programs meet these: they call the API themselves, or are workers
_NOT_FOR_PEOPLE = {"LEASE_LOST", "INVALID_SIGNATURE", "MEDIA_PENDING", "INBOX_OFF", "CSRF_FAILED"}
_OF_THE_API = re.compile(
    r"\b(?:GET|POST|PUT|PATCH|DELETE) |/api/|\?drain|\w:true|X-Api-Key|Content-Type|Retry-After|`to`"
)


@pytest.mark.parametrize("code", sorted(set(errors.by_code()) - _NOT_FOR_PEOPLE))
def test_no_sentence_speaks_of_routes_or_headers(code: str) -> None:
    told = in_operators_words(errors.by_code()[code].sentence)
    assert not _OF_THE_API.search(told), told
    assert told.endswith((".", "?")), told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("There is no session with this id. GET /api/sessions lists the sessions.",
         "There is no session with this id. `wa-orchestrator sessions list` shows them."),
        ("Sessions use this proxy. Add ?drain=true to move them to other proxies first.",
         "Sessions use this proxy. Add --drain to move them to other proxies first."),
        ("expiresAt: it must be later than now and than scheduleAt.",
         "--expires: it must be later than now and than --at."),
        ('hours: write "09:00-21:00", or null for any hour.', "--hours: write 09:00-21:00, or none for any hour."),
        ("rights.0: Input should be 'read', 'send' or 'admin'.", "--right: write read, send or admin."),
        ("body.status: Input should be 'failed' or 'stopped'.", "--status: write failed or stopped."),
        ("message: it has more than 4096 characters (MAX_TEXT_LENGTH).",
         "TEXT: it has more than 4096 characters (MAX_TEXT_LENGTH)."),
        ("Idempotency-Key: 1 to 255 visible ASCII characters.", "--key: 1 to 255 visible ASCII characters."),
        ("webhook_id: String should match pattern '^wh_[0-9a-f]{16}$'.",
         "There is no webhook with this id. `wa-orchestrator webhooks list` shows them."),
        ("This phone is already on the live session worker_4.", "This phone is already on the live session worker_4."),
        ("The proxy says: no.", "The proxy says: no."),
    ],
)  # fmt: skip
def test_routes_and_fields_become_commands_and_options(said: str, told: str) -> None:
    assert in_operators_words(said) == told
