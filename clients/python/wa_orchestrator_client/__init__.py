"""Client for WhatsApp Orchestrator: sessions, messages sent once, events without gaps; sync and async."""

from wa_orchestrator_client.aio import AsyncClient
from wa_orchestrator_client.client import Client
from wa_orchestrator_client.errors import (
    ApiError,
    ClientError,
    Conflict,
    ConnectionFailed,
    EventsLost,
    Forbidden,
    Invalid,
    NotFound,
    RateLimited,
    SignatureInvalid,
    Unauthorized,
    Unavailable,
)
from wa_orchestrator_client.models import (
    BulkItem,
    BulkResult,
    Deleted,
    Event,
    Message,
    MessageState,
    PairingCode,
    Provisioned,
    Qr,
    Queued,
    Session,
    Upload,
    Webhook,
)
from wa_orchestrator_client.retrying import RetryPolicy
from wa_orchestrator_client.webhooks import verify_webhook

__all__ = [
    "ApiError", "AsyncClient", "BulkItem", "BulkResult", "Client", "ClientError", "Conflict", "ConnectionFailed",
    "Deleted", "Event", "EventsLost", "Forbidden", "Invalid", "Message", "MessageState", "NotFound", "PairingCode",
    "Provisioned", "Qr", "Queued", "RateLimited", "RetryPolicy", "Session", "SignatureInvalid", "Unauthorized",
    "Unavailable", "Upload", "Webhook", "verify_webhook",
]  # fmt: skip
