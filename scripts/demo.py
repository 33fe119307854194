"""The demo: a whole server with a simulated WhatsApp; sessions are made, scanned and connected before your eyes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("DEMO_DATA_DIR", ROOT / "data" / "demo"))
READY = DATA / "ready.json"
PHONES = ("972500000001", "972500000002", "972500000003")
_START_S, _STEP_S = 60, 30


def say(text: str) -> None:
    print(text, flush=True)


class Demo:
    def __init__(self, ready: dict[str, Any]) -> None:
        self.url: str = ready["url"]
        self.key: str = ready["apiKey"]
        self.simulator: str = ready["simulator"]["url"]

    def call(self, method: str, url: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - our own loopback address
            url,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"X-Api-Key": self.key, "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_STEP_S) as answer:  # noqa: S310
            return json.loads(answer.read())

    def session_of(self, phone: str) -> dict[str, Any] | None:
        found = self.call("GET", f"{self.url}/api/sessions?search={phone}")["sessions"]
        return found[0] if found else None

    def link(self, phone: str) -> None:
        """Provision → QR → scan → connected, unless an earlier demo did it."""
        session = self.session_of(phone)
        if session is None:
            made = self.call("POST", f"{self.url}/api/sessions/provision", {"phone": phone, "label": "Demo"})
            name = made["sessionId"]
            say(f"  {name}: made on proxy {made['proxy']['host']}:{made['proxy']['port']}, its worker runs")
            code = self.wait_for(lambda: self.code_of(name), f"a QR code of {name}")
            say(f"  {name}: shows a QR code")
            self.call("POST", f"{self.simulator}/phones/{phone}/scan", {"qr": code["qr"]})
            say(f"  {name}: scanned by the simulated phone {phone}")
        else:
            name = session["sessionId"]
            say(f"  {name}: known from an earlier demo, needs no new scan")
        self.wait_for(lambda: self.connected(name), f"{name} to connect")
        say(f"  {name}: connected ✔")

    def send_at_any_hour(self) -> None:
        """New phones send from 09:00 to 21:00 only, and somebody tries this at night."""
        self.call("PUT", f"{self.url}/api/anti-ban/limits", {"hours": None})

    def code_of(self, name: str) -> Any:
        try:
            return self.call("GET", f"{self.url}/api/sessions/{name}/qr")
        except urllib.error.HTTPError as error:
            if error.code in {404, 409}:
                return None
            raise

    def connected(self, name: str) -> bool:
        return bool(self.call("GET", f"{self.url}/api/sessions/{name}")["status"] == "connected")

    @staticmethod
    def wait_for(look: Any, what: str) -> Any:
        deadline = time.monotonic() + _STEP_S
        while time.monotonic() < deadline:
            if found := look():
                return found
            time.sleep(0.1)
        raise SystemExit(f"waited {_STEP_S} s for {what}; the logs are in {DATA / 'logs'}")


def start_server() -> subprocess.Popen[bytes]:
    DATA.mkdir(parents=True, exist_ok=True)
    READY.unlink(missing_ok=True)
    program = Path(sys.executable).parent / "wa-orchestrator"
    command = [str(program), "up", "--simulate", "--data-dir", str(DATA), "--port",
               os.environ.get("ORCH_PORT", "0"), "--ready-file", str(READY)]  # fmt: skip
    with (DATA / "server.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def wait_until_ready(server: subprocess.Popen[bytes]) -> dict[str, Any]:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and server.poll() is None:
        if READY.is_file():
            found: dict[str, Any] = json.loads(READY.read_text())
            return found
        time.sleep(0.05)
    last = (DATA / "server.log").read_text(errors="replace").splitlines()[-8:]
    raise SystemExit("the server did not start:\n" + "\n".join(last))


def tell_what_to_try(demo: Demo) -> None:
    command = f"wa-orchestrator --data-dir {os.path.relpath(DATA)}"
    say(f"""
Everything runs. Open the dashboard:  {demo.url}  (sign in with the API key {demo.key})

The API's document is at {demo.url}/docs. Try, in another terminal (after `source .venv/bin/activate`):

  {command} sessions list
  {command} sessions create --label "My shop"
  {command} sessions qr worker_{len(PHONES) + 1}          # the code, drawn in the terminal
  {command} phones scan 972500000009 worker_{len(PHONES) + 1}
  {command} send {PHONES[1]} "Hello from the demo" --session worker_1 --wait
  {command} phones inbox {PHONES[1]}
  {command} proxies list
  curl -H 'X-Api-Key: {demo.key}' {demo.url}/api/sessions

The simulated WhatsApp answers at {demo.simulator}; the log is {os.path.relpath(DATA / "server.log")}.
Ctrl-C stops everything; the next `make demo` finds the sessions again.""")


def main() -> None:
    say("demo")
    say("  starting the server, an embedded store and a simulated WhatsApp with its own proxies …")
    server = start_server()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    try:
        demo = Demo(wait_until_ready(server))
        say(f"  ready at {demo.url}")
        demo.send_at_any_hour()
        for phone in PHONES:
            demo.link(phone)
        tell_what_to_try(demo)
        if "--once" not in sys.argv:
            server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        say("\nstopping …")
        server.terminate()
        server.wait(timeout=60)
        say("stopped")


if __name__ == "__main__":
    main()
