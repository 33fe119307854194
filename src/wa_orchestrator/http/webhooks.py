"""Webhooks over HTTP: make, look at, change, try, remove; dead letters and how to drive them again."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import Field, StringConstraints

from wa_orchestrator.clock import iso
from wa_orchestrator.errors import Forbidden, InvalidBody
from wa_orchestrator.events.targets import has_credentials, shown_url
from wa_orchestrator.events.webhooks import new_id, new_secret
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.rights import CallerHere
from wa_orchestrator.http.views import Body, EventView, ShortText, View
from wa_orchestrator.model.caller import Caller
from wa_orchestrator.model.session import checked_session_id
from wa_orchestrator.model.webhook import NATIVE, Webhook
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.store.webhooks import Letter

Url = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Secret = Annotated[str, StringConstraints(min_length=16, max_length=200, pattern=r"^[\x21-\x7e]+$")]
EventTypeName = Annotated[str, StringConstraints(min_length=1, max_length=60)]
SessionName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
HeaderValue = Annotated[str, StringConstraints(max_length=1000)]
WebhookId = Annotated[str, Path(pattern=r"^wh_[0-9a-f]{16}$")]
_URL = "http:// or https://; user:password@ is sent as basic authentication and never shown"


class WebhookBody(Body):
    url: Url = Field(description=_URL, examples=["https://app.example/events"])
    types: list[EventTypeName] = Field(
        default_factory=list, max_length=100, description="None: all; `message.*`: a group"
    )
    sessions: list[SessionName] = Field(default_factory=list, max_length=1000, description="None: all")
    metadata: dict[ShortText, ShortText] = Field(
        default_factory=dict, max_length=20, description="Only sessions whose metadata hold all of these"
    )
    headers: dict[ShortText, HeaderValue] = Field(default_factory=dict, max_length=20, description="Sent along")
    secret: Secret | None = Field(default=None, description="Signs every request; none: one is made and shown once")
    format: ShortText = Field(default=NATIVE, description="The shape of the request")
    label: ShortText = ""
    enabled: bool = True
    after: Annotated[int, Field(ge=0, le=2**53)] | None = Field(
        default=None, description="Begin with what follows this number; none: with what happens from now on"
    )


class WebhookChange(Body):
    url: Url | None = Field(default=None, description=_URL)
    types: list[EventTypeName] | None = Field(default=None, max_length=100)
    sessions: list[SessionName] | None = Field(default=None, max_length=1000)
    metadata: dict[ShortText, ShortText] | None = Field(default=None, max_length=20)
    headers: dict[ShortText, HeaderValue] | None = Field(default=None, max_length=20)
    secret: Secret | None = None
    format: ShortText | None = None
    label: ShortText | None = None
    enabled: bool | None = Field(default=None, description="true goes on where it stopped")


class WebhookStateView(View):
    status: str = Field(description="active, failing or disabled")
    disabled_reason: str | None
    behind: int = Field(description="Events of the journal not looked at yet")
    waiting: int = Field(description="Events of sessions that the receiver refuses while it takes others")
    dead: int = Field(description="Dead letters on the list")
    dead_dropped: int = Field(description="Dead letters that had no room on the list")
    delivered: int
    failed_tries: int
    failures_in_a_row: int
    failing_since: str | None
    next_try_at: str | None
    last_status: int | None
    last_error: str | None
    last_try_at: str | None
    last_delivered_at: str | None
    last_number: int | None


class WebhookView(View):
    id: str
    url: str = Field(description="Without credentials and query values")
    url_has_secrets: bool
    types: list[str]
    sessions: list[str]
    metadata: dict[str, str]
    headers: list[str] = Field(description="Names only")
    format: str
    label: str | None
    enabled: bool
    created_at: str | None
    updated_at: str | None
    state: WebhookStateView


class CreatedWebhookView(WebhookView):
    secret: str | None = Field(description="Shown this once, if it was made here")


class WebhookList(View):
    webhooks: list[WebhookView]
    total: int


class DeletedWebhookView(View):
    id: str
    deleted: bool


class TestedView(View):
    delivered: bool
    status: int | None
    error: str | None
    took_ms: int


class DeadLetterView(EventView):
    dead_at: str
    reason: str
    tries: int


class DeadLetterList(View):
    dead: list[DeadLetterView]
    total: int


class NumbersBody(Body):
    numbers: list[Annotated[int, Field(ge=0, le=2**53)]] | None = Field(
        default=None, max_length=1000, description="None: all of them"
    )


class RedrivenView(View):
    redriven: int
    left: int


class DroppedView(View):
    dropped: int
    left: int


def webhook_fields(webhook: Webhook, last: int) -> dict[str, Any]:
    status = "disabled" if not webhook.enabled else "failing" if webhook.failures or webhook.waiting else "active"
    return {
        "id": webhook.webhook_id,
        "url": shown_url(webhook.url),
        "url_has_secrets": has_credentials(webhook.url),
        "types": list(webhook.types),
        "sessions": list(webhook.sessions),
        "metadata": webhook.metadata,
        "headers": sorted(webhook.headers),
        "format": webhook.format,
        "label": webhook.label or None,
        "enabled": webhook.enabled,
        "created_at": iso(webhook.created_at),
        "updated_at": iso(webhook.updated_at),
        "state": WebhookStateView(
            status=status,
            disabled_reason=webhook.disabled_reason or None,
            behind=max(0, last - webhook.cursor),
            waiting=webhook.waiting,
            dead=webhook.dead_now,
            dead_dropped=webhook.dead_dropped,
            delivered=webhook.delivered,
            failed_tries=webhook.failed,
            failures_in_a_row=webhook.failures,
            failing_since=iso(webhook.failing_since),
            next_try_at=iso(webhook.next_try),
            last_status=webhook.last_status,
            last_error=webhook.last_error or None,
            last_try_at=iso(webhook.last_try_at),
            last_delivered_at=iso(webhook.last_delivered_at),
            last_number=webhook.last_number or None,
        ),
    }


def letter_view(letter: Letter) -> DeadLetterView:
    entry = letter.entry()
    return DeadLetterView(
        number=entry.number, type=entry.type, session_id=entry.session_id or None, timestamp=iso(entry.at) or "",
        data=entry.data, dead_at=iso(letter.dead_at) or "", reason=letter.reason, tries=letter.tries,
    )  # fmt: skip


def webhooks_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["webhooks"])
    store, webhooks = rooms.store, rooms.webhooks

    async def shown(webhook: Webhook) -> WebhookView:
        return WebhookView(**webhook_fields(webhook, await store.journal.last_number()))

    async def own(webhook_id: str, caller: Caller) -> Webhook:
        """A key that is limited to sessions sees the webhooks for those sessions only."""
        webhook = await store.webhooks.get(webhook_id)
        check_reach(caller, webhook.sessions)
        return webhook

    @router.post("/webhooks", status_code=201, summary="Make a webhook")
    async def create(body: WebhookBody, caller: CallerHere) -> CreatedWebhookView:
        """Events are posted from now on, or after the number in `after`."""
        sessions = tuple(checked_session_id(one) for one in body.sessions)
        check_reach(caller, sessions)
        webhook = Webhook(
            webhook_id=new_id(), url=body.url, secret=body.secret or new_secret(), label=body.label,
            types=tuple(body.types), sessions=sessions, metadata=body.metadata, headers=body.headers,
            format=body.format, enabled=body.enabled, by=caller.by,
        )  # fmt: skip
        made = await webhooks.create(webhook, after=body.after)
        last = await store.journal.last_number()
        return CreatedWebhookView(**webhook_fields(made, last), secret=None if body.secret else made.secret)

    @router.get("/webhooks", summary="List webhooks and how they do")
    async def list_webhooks(caller: CallerHere) -> WebhookList:
        last = await store.journal.last_number()
        found = [one for one in await store.webhooks.all() if _within(caller, one.sessions)]
        return WebhookList(webhooks=[WebhookView(**webhook_fields(one, last)) for one in found], total=len(found))

    @router.get("/webhooks/{webhook_id}", summary="Look at a webhook")
    async def get(webhook_id: WebhookId, caller: CallerHere) -> WebhookView:
        return await shown(await own(webhook_id, caller))

    @router.patch("/webhooks/{webhook_id}", summary="Change a webhook")
    async def change(webhook_id: WebhookId, body: WebhookChange, caller: CallerHere) -> WebhookView:
        """What is not named stays as it is."""
        await own(webhook_id, caller)
        fields = {name: getattr(body, name) for name in body.model_fields_set}
        if none := [name for name, value in fields.items() if value is None]:
            raise InvalidBody(f"{none[0]}: leave it out, or give a value.", details={"field": none[0]})
        if "sessions" in fields:
            fields["sessions"] = tuple(checked_session_id(one) for one in fields["sessions"])
            check_reach(caller, fields["sessions"])
        if "types" in fields:
            fields["types"] = tuple(fields["types"])
        return await shown(await webhooks.change(webhook_id, fields))

    @router.delete("/webhooks/{webhook_id}", summary="Delete a webhook")
    async def delete(webhook_id: WebhookId, caller: CallerHere) -> DeletedWebhookView:
        """Its dead letters and whatever waits for its receiver go with it."""
        await own(webhook_id, caller)
        return DeletedWebhookView(id=webhook_id, deleted=await webhooks.delete(webhook_id))

    @router.post("/webhooks/{webhook_id}/test", summary="Post a test event now")
    async def test(webhook_id: WebhookId, caller: CallerHere) -> TestedView:
        """`webhook.test`, once, beside the queue; the answer says what the receiver did."""
        await own(webhook_id, caller)
        answer = await webhooks.test(webhook_id)
        return TestedView(
            delivered=answer.delivered, status=answer.status, error=answer.error or None, took_ms=answer.took_ms
        )

    @router.get("/webhooks/{webhook_id}/dead", summary="Dead letters, newest first")
    async def dead(
        webhook_id: WebhookId,
        caller: CallerHere,
        before: Annotated[int | None, Query(ge=0, le=2**53, description="Smaller numbers only: the next page")] = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> DeadLetterList:
        webhook = await own(webhook_id, caller)
        found = await store.webhooks.dead(webhook_id, before=before, limit=limit)
        return DeadLetterList(dead=[letter_view(one) for one in found], total=webhook.dead_now)

    @router.post("/webhooks/{webhook_id}/redrive", summary="Drive dead letters again")
    async def redrive(webhook_id: WebhookId, caller: CallerHere, body: NumbersBody | None = None) -> RedrivenView:
        """They are tried at once, before whatever of their session waits. Also ends a pause of the receiver."""
        await own(webhook_id, caller)
        moved, left = await webhooks.redrive(webhook_id, body.numbers if body else None)
        return RedrivenView(redriven=moved, left=left)

    @router.post("/webhooks/{webhook_id}/dead/drop", summary="Throw dead letters away")
    async def drop(webhook_id: WebhookId, caller: CallerHere, body: NumbersBody | None = None) -> DroppedView:
        await own(webhook_id, caller)
        moved, left = await webhooks.redrive(webhook_id, body.numbers if body else None, drop=True)
        return DroppedView(dropped=moved, left=left)

    return router


def _within(caller: Caller, sessions: tuple[str, ...]) -> bool:
    return caller.sessions is None or (bool(sessions) and caller.sessions.issuperset(sessions))


def check_reach(caller: Caller, sessions: tuple[str, ...]) -> None:
    if not _within(caller, sessions):
        raise Forbidden("This key is limited to sessions: name only those in `sessions`.")
