"""The script of `helm test`, as the pod runs it, against a relay that is not ready at first."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from chart.rendering import NAME, Rendered


class _Relay(BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self) -> None:
        _Relay.asked += 1
        ready = self.path == "/readyz" and _Relay.asked > 1
        body = b'{"state":"running"}' if ready else b'{"state":"starting"}'
        self.send_response(200 if ready else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the standard library
        pass


def test_it_waits_until_every_pod_is_ready() -> None:
    (container,) = Rendered({"http": {"port": 9000}}).test_pod["spec"]["containers"]
    script, host, port = container["args"]
    assert container["command"] == ["python", "-c"]
    assert (host, port) == (NAME, "9000")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Relay) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        command = [sys.executable, "-c", script, "127.0.0.1", str(server.server_port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        server.shutdown()
        thread.join()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '127.0.0.1 {"state":"running"}\n'
    assert _Relay.asked == 2
