"""A world of webhooks on an empty store, and receivers in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.receiver import Receiver
from support.servers import StoreServer
from support.webhook_world import WebhookWorld, webhook_world


@pytest.fixture
async def world(valkey: StoreServer) -> AsyncIterator[WebhookWorld]:
    async with webhook_world(valkey.url) as found:
        yield found


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as found:
        yield found


@pytest.fixture
async def another() -> AsyncIterator[Receiver]:
    async with Receiver() as found:
        yield found
