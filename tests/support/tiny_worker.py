"""A worker without WhatsApp that speaks the worker protocol. Standard library only; run as a program.

Tests steer it by files in its session folder:

    connect-as   a phone number: reports CONNECTED, now and after every restart
    post         {"type": …, "data": …}: reports that event (the file is removed)
    deaf         is there at the start: SIGTERM is ignored
    crash        ends at once with code 3 (the file is removed)

It asks for commands and carries out `pairing_code` (the code is TINY1234) and `logout`; others it refuses.

TINY_RETRY_MS (default 500, as the protocol says) is the first pause before an event is sent again.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import queue
import random
import re
import secrets
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_LONGEST_PAUSE_S = 30.0
_TRY_AGAIN = {401, 408, 429}


class Spool:
    """Numbered events, on disk until they are accepted."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "tiny-events.json"
        if self._file.exists():
            self._state = json.loads(self._file.read_text())
        else:
            self._state = {"stream": secrets.token_hex(8), "seq": 0, "waiting": []}

    def add(self, session_id: str, type_: str, data: dict[str, Any]) -> None:
        self._state["seq"] += 1
        self._state["waiting"].append(
            {
                "sessionId": session_id,
                "type": type_,
                "timestamp": _now_ms(),
                "seq": self._state["seq"],
                "stream": self._state["stream"],
                "data": data,
            }
        )
        self._save()

    def __len__(self) -> int:
        return len(self._state["waiting"])

    def first(self) -> dict[str, Any]:
        event: dict[str, Any] = self._state["waiting"][0]
        return event

    def done(self) -> None:
        self._state["waiting"].pop(0)
        self._save()

    def _save(self) -> None:
        unfinished = self._file.with_suffix(".tmp")
        unfinished.write_text(json.dumps(self._state))
        unfinished.replace(self._file)


class TinyWorker:
    def __init__(self, env: dict[str, str]) -> None:
        self.session_id = env["SESSION_ID"]
        self.url = env["WEBHOOK_URL"]
        self.secret = env["WEBHOOK_SECRET"]
        self.folder = Path(env.get("SESSIONS_DIR", "./sessions")) / self.session_id
        self.ping_s = int(env.get("PING_INTERVAL_MS", "15000")) / 1000
        self.first_pause_s = int(env.get("TINY_RETRY_MS", "500")) / 1000
        self.spool = Spool(self.folder)
        self.connection = "connecting"
        self.began = time.monotonic()
        self.pause_s = self.first_pause_s
        self.next_try = self.next_ping = 0.0
        self.commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.done: set[str] = set()

    def run(self) -> None:
        threading.Thread(target=self._claim_for_ever, daemon=True).start()
        if not self._linked():
            qr = ",".join(["2@" + secrets.token_urlsafe(32), *(secrets.token_urlsafe(32) for _ in range(3))])
            self.spool.add(self.session_id, "QR_CODE", {"qr": qr, "expiresInMs": 60_000})
        print(f"worker of {self.session_id} runs", flush=True)
        while True:
            self._obey()
            if self.ping_s and time.monotonic() >= self.next_ping:
                self.next_ping = time.monotonic() + self.ping_s
                self._post(self._ping())
            if len(self.spool) and time.monotonic() >= self.next_try:
                self._deliver_first()
            time.sleep(0.03)

    def _linked(self) -> bool:
        return (self.folder / "connect-as").exists()

    def _obey(self) -> None:
        if (self.folder / "crash").exists():
            (self.folder / "crash").unlink()
            os._exit(3)
        if self.connection != "open" and self._linked():
            self._connect((self.folder / "connect-as").read_text().strip())
        if (self.folder / "post").exists():
            event = json.loads((self.folder / "post").read_text())
            (self.folder / "post").unlink()
            self.spool.add(self.session_id, event["type"], event["data"])
        while not self.commands.empty():
            self._carry_out(self.commands.get())

    def _claim_for_ever(self) -> None:
        base = self.url.removesuffix("/api/webhook")
        while True:
            url = f"{base}/api/worker/sessions/{self.session_id}/outbox/claim"
            status, answer = self._send(url, {"max": 0, "waitMs": 5000, "connection": self.connection})
            found = answer.get("commands", []) if status == 200 else []
            for command in found:
                self.commands.put(command)
            if status != 200 or found:
                time.sleep(0.2)  # an answer to a command takes a moment to arrive

    def _carry_out(self, command: dict[str, Any]) -> None:
        if command["commandId"] in self.done:  # delivered again until the answer arrived
            return
        self.done.add(command["commandId"])
        known = {"pairing_code": {"code": "TINY1234"}, "logout": {}}
        result = known.get(command["name"])
        data = {"commandId": command["commandId"], "ok": result is not None, "result": result}
        self.spool.add(self.session_id, "COMMAND_RESULT", data)
        if command["name"] == "logout":
            (self.folder / "connect-as").unlink(missing_ok=True)
            self.connection = "parked"
            said = {"reason": "logged_out", "code": 401, "isProxyError": False, "isLoggedOut": True}
            self.spool.add(self.session_id, "DISCONNECTED", {**said, "willReconnect": False})

    def _connect(self, phone: str) -> None:
        if not phone:  # the file is there, its content not yet
            return
        known = self.folder / "tiny-linked"
        data = {
            "phoneNumber": phone,
            "jid": f"{phone}:1@s.whatsapp.net",
            "fingerprint": hashlib.sha256(phone.encode()).hexdigest()[:16],
            "isNewLogin": not known.exists(),
        }
        known.touch()
        self.connection = "open"
        self.spool.add(self.session_id, "CONNECTED", data)

    def _ping(self) -> dict[str, Any]:
        data = {
            "timestamp": _now_ms(),
            "connection": self.connection,
            "rssBytes": 0,
            "heapUsedBytes": 0,
            "uptimeS": int(time.monotonic() - self.began),
            "spooled": len(self.spool),
            "unacked": 0,
        }
        return {"sessionId": self.session_id, "type": "PING", "timestamp": _now_ms(), "data": data}

    def _deliver_first(self) -> None:
        status = self._post(self.spool.first())
        accepted = 200 <= status < 300
        never = 400 <= status < 500 and status not in _TRY_AGAIN
        if accepted or never:
            self.spool.done()
            self.pause_s = self.first_pause_s
            self.next_try = 0.0
        else:
            self.next_try = time.monotonic() + self.pause_s * random.uniform(0.8, 1.2)
            self.pause_s = min(self.pause_s * 2, _LONGEST_PAUSE_S)

    def _post(self, event: dict[str, Any]) -> int:
        return self._send(self.url, event)[0]

    def _send(self, url: str, value: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The HTTP status and the answer; 0 when nobody is there."""
        body = json.dumps(value).encode()
        stamp = str(_now_ms())
        signature = hmac.new(self.secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "X-Webhook-Timestamp": stamp,
            "X-Webhook-Signature": signature,
        }
        request = urllib.request.Request(url, data=body, headers=headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return int(response.status), json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, {}
        except (OSError, ValueError, http.client.HTTPException):
            return 0, {}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _wrong_setting(env: dict[str, str]) -> str | None:
    for name in ("SESSION_ID", "PROXY_URL", "WEBHOOK_URL", "WEBHOOK_SECRET"):
        if not env.get(name):
            return f"{name} is missing."
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", env["SESSION_ID"]):
        return "SESSION_ID is not valid."
    if not env["PROXY_URL"].startswith("socks5h://"):
        return "PROXY_URL must start with socks5h://."
    return None


def main() -> None:
    env = dict(os.environ)
    wrong = _wrong_setting(env)
    if wrong:
        print(wrong, file=sys.stderr)
        sys.exit(64)
    worker = TinyWorker(env)
    if (worker.folder / "deaf").exists():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    worker.run()


if __name__ == "__main__":
    main()
