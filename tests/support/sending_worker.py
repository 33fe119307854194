"""A tiny worker that also takes messages out of its outbox; run as a program.

Everything it is handed is a line of `handed-out` in its session folder: the message's id, then what it says. It keeps
no ledger of its own on purpose: what the server hands out twice is to be seen.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.tiny_worker import TinyWorker


class SendingWorker(TinyWorker):
    def send_for_ever(self) -> None:
        while True:
            answer = self._ask_outbox("claim", {"max": 20, "waitMs": 5000}) if self.connection == "open" else None
            for message in (answer or {}).get("messages", []):
                self._hand_over(message)
            if answer is None:
                time.sleep(0.05)

    def _hand_over(self, message: dict[str, Any]) -> None:
        with (self.folder / "handed-out").open("a") as file:
            file.write(f"{message['messageId']} {message['content']['text']}\n")
        ack = {"messageId": message["messageId"], "token": message["lease"]["token"],
               "waMessageId": message["waMessageId"], "sentAt": time.time_ns() // 1_000_000}  # fmt: skip
        while self._ask_outbox("ack", ack) is None:
            time.sleep(0.05)

    def _ask_outbox(self, what: str, body: dict[str, Any]) -> Any:
        """The answer; None when there was none."""
        raw, stamp = json.dumps(body).encode(), str(time.time_ns() // 1_000_000)
        signature = hmac.new(self.secret.encode(), f"{stamp}.".encode() + raw, hashlib.sha256).hexdigest()
        base = self.url.removesuffix("/api/webhook")
        request = urllib.request.Request(
            f"{base}/api/worker/sessions/{self.session_id}/outbox/{what}",
            data=raw,
            method="POST",
            headers={"X-Webhook-Timestamp": stamp, "X-Webhook-Signature": signature},
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return json.loads(response.read())
        except (OSError, urllib.error.URLError):
            return None


def main() -> None:
    worker = SendingWorker(dict(os.environ))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    threading.Thread(target=worker.send_for_ever, daemon=True).start()
    worker.run()


if __name__ == "__main__":
    main()
