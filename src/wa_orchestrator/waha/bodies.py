"""What WAHA's clients send, as far as it means something here. Fields we do not know are passed over: WAHA's own
clients send many that only matter to its engines."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(min_length=1, max_length=64)]
ChatId = Annotated[str, StringConstraints(min_length=1, max_length=100)]
MessageId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Short = Annotated[str, StringConstraints(max_length=200)]


class Form(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


# sessions -------------------------------------------------------------------------------------------------------
class Hmac(Form):
    key: Annotated[str, StringConstraints(max_length=500)] | None = None


class Retries(Form):
    delaySeconds: float | None = Field(default=None, ge=0)  # noqa: N815 - as on the wire
    attempts: float | None = Field(default=None, ge=0)
    policy: Short | None = None


class CustomHeader(Form):
    name: Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9-]+$")]
    value: Annotated[str, StringConstraints(max_length=2000, pattern=r"^[\x20-\x7e]*$")]


class Webhook(Form):
    url: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    events: list[Short] = Field(default_factory=list, max_length=100)
    hmac: Hmac | None = None
    retries: Retries | None = None
    customHeaders: list[CustomHeader] | None = Field(default=None, max_length=20)  # noqa: N815 - as on the wire


class Proxy(Form):
    server: Annotated[str, StringConstraints(max_length=1000)]
    username: Annotated[str, StringConstraints(max_length=300)] | None = None
    password: Annotated[str, StringConstraints(max_length=300)] | None = None


class Config(Form):
    metadata: dict[Short, Short] | None = Field(default=None, max_length=50)
    proxy: Proxy | None = None
    webhooks: list[Webhook] | None = Field(default=None, max_length=20)


class CreateSession(Form):
    name: Name | None = None
    start: bool | None = True
    config: Config | None = None


class UpdateSession(Form):
    config: Config | None = None


class RequestCode(Form):
    phoneNumber: Annotated[str, StringConstraints(min_length=1, max_length=40)]  # noqa: N815 - as on the wire


# messages -------------------------------------------------------------------------------------------------------
class Sent(Form):
    """What every sending call has."""

    session: Name = "default"
    chatId: ChatId  # noqa: N815 - as on the wire
    reply_to: MessageId | None = None


class Text(Sent):
    text: str
    mentions: list[ChatId] | None = None


class File(Form):
    url: str | None = None
    data: str | None = Field(default=None, description="Base64")
    mimetype: Short | None = None
    filename: Short | None = None


class Media(Sent):
    file: File
    caption: str | None = None


class Location(Sent):
    latitude: float
    longitude: float
    title: Short | None = None


class ContactCard(Form):
    vcard: str | None = None
    fullName: Short | None = None  # noqa: N815 - as on the wire
    organization: Short | None = None
    phoneNumber: Short | None = None  # noqa: N815 - as on the wire
    whatsappId: Short | None = None  # noqa: N815 - as on the wire


class Contacts(Sent):
    contacts: list[ContactCard] = Field(min_length=1, max_length=20)


class PollForm(Form):
    name: Short
    options: list[Short]
    multipleAnswers: bool | None = None  # noqa: N815 - as on the wire


class Poll(Sent):
    poll: PollForm


class Reaction(Form):
    session: Name = "default"
    messageId: MessageId  # noqa: N815 - as on the wire
    reaction: Annotated[str, StringConstraints(max_length=20)]


class Seen(Form):
    session: Name = "default"
    chatId: ChatId  # noqa: N815 - as on the wire
    messageId: MessageId | None = None  # noqa: N815 - as on the wire
    messageIds: list[MessageId] | None = Field(default=None, max_length=100)  # noqa: N815 - as on the wire
    participant: ChatId | None = None


class Chat(Form):
    session: Name = "default"
    chatId: ChatId  # noqa: N815 - as on the wire


# answers --------------------------------------------------------------------------------------------------------
class Me(BaseModel):
    id: str
    lid: str | None
    jid: str | None
    pushName: str  # noqa: N815 - as on the wire


class SessionAnswer(BaseModel):
    name: str
    status: str
    config: dict[str, Any]
    me: Me | None
    engine: dict[str, str]
    presence: None
    timestamps: dict[str, int]
    assignedWorker: str | None  # noqa: N815 - as on the wire


class NumberAnswer(BaseModel):
    numberExists: bool  # noqa: N815 - as on the wire
    chatId: str | None  # noqa: N815 - as on the wire
    pn: str | None


class CodeAnswer(BaseModel):
    code: str


class Done(BaseModel):
    success: bool = True
    note: str | None = None
