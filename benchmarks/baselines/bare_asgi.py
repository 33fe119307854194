"""The least an ASGI app can do for the same store step: uvicorn, msgspec and one call of the plain Redis client."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
import redis.asyncio as redis
import uvicorn
import uvloop

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class BareApp:
    def __init__(self, client: redis.Redis, sha: str, arguments: dict[str, Any]) -> None:
        self._client = client
        self._arguments = arguments
        self._sha = sha

    async def __call__(self, _scope: dict[str, Any], receive: Receive, send: Send) -> None:
        body = msgspec.json.decode((await receive())["body"])
        number, now = secrets.token_hex(9), time.time_ns() // 1_000_000
        arguments = {
            **self._arguments,
            "now": now,
            "today": datetime.now(UTC).date().isoformat(),
            "id": f"msg_{number}",
            "wa": f"3EB0{number.upper()}",
            "to": f"{body['to']}@s.whatsapp.net",
            "recipient": body["to"],
            "content": msgspec.json.encode({"kind": "text", "text": body["message"]}).decode(),
            "session": body["sessionId"],
        }
        packed = msgspec.json.encode(arguments)
        told = msgspec.json.decode(
            await cast(Awaitable[bytes], self._client.execute_command("EVALSHA", self._sha, 0, packed))  # type: ignore[no-untyped-call]
        )
        answer = msgspec.json.encode(
            {
                "queued": True,
                "messageId": told["messageId"],
                "sessionId": told["session"],
                "estimatedSendAt": datetime.fromtimestamp(told["acceptedAt"] / 1000, UTC),
            }
        )
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


async def main() -> None:
    # requests wait for one of these connections; without a bound a busy machine runs into the client's own time-outs
    pool = redis.BlockingConnectionPool.from_url(
        os.environ["STORE_URL"], max_connections=64, timeout=None, socket_timeout=None
    )
    client = redis.Redis(connection_pool=pool)
    script = Path(os.environ["SCRIPT_FILE"]).read_text(encoding="utf-8")
    sha = await cast(Awaitable[bytes], client.script_load(script))
    listening = socket.create_server(("127.0.0.1", 0))
    ready = Path(os.environ["READY_FILE"])
    part = ready.with_suffix(".part")
    part.write_text(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}))
    part.rename(ready)
    arguments = json.loads(Path(os.environ["ARGUMENTS_FILE"]).read_text(encoding="utf-8"))
    app = BareApp(client, sha.decode() if isinstance(sha, bytes) else str(sha), arguments)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")
    await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
