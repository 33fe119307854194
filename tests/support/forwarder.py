"""One address that reaches whichever of several servers is alive: what a load balancer does for workers."""

from __future__ import annotations

import contextlib
import socket
import threading


class Forwarder:
    def __init__(self) -> None:
        self.targets: list[int] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        for port in list(self.targets):
            try:
                server = socket.create_connection(("127.0.0.1", port), timeout=2)
            except OSError:
                continue
            server.settimeout(None)
            threading.Thread(target=_pump, args=(server, client), daemon=True).start()
            _pump(client, server)
            return
        client.close()

    def close(self) -> None:
        self._listening.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
