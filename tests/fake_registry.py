"""A schema registry with Confluent's API, in this process: compatibility as BACKWARD checks it for records,
faults on demand, and a list of what it was asked.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from relay.model.lookups import RegisteredSchema

Answer = tuple[int, Any]


class FakeRegistry:
    """The schemas of a registry. `faults`: what the next requests get instead of an answer."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.types: dict[int, str] = {}
        self.subjects: dict[str, list[int]] = {}
        self.references: dict[int, list[dict[str, Any]]] = {}
        self.compatibility: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[Answer | Callable[[BaseHTTPRequestHandler], None]] = []
        self.url = ""

    def add(self, subject: str, text: str) -> int:
        """Register a schema, unless it is there."""
        meaning = json.loads(text)
        ids = [id for id, other in self.texts.items() if json.loads(other) == meaning]
        id = ids[0] if ids else len(self.texts) + 1
        self.texts.setdefault(id, text)
        versions = self.subjects.setdefault(subject, [])
        if id not in versions:
            versions.append(id)
        return id

    def registrations(self) -> list[str]:
        return [path for method, path in self.asked if method == "POST" and path.endswith("/versions")]

    def answer(self, method: str, path: str, body: Any) -> Answer:  # noqa: C901, PLR0911 - a dispatch
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match method, parts:
            case "GET", ["subjects"]:
                return 200, list(self.subjects)
            case "GET", ["schemas", "types"]:
                return 200, ["AVRO"]
            case "GET", ["schemas", "ids", id]:
                return self._schema(int(id))
            case "GET", ["schemas", "guids", guid]:
                return self._schema(int(guid.rpartition("-")[2], 16))
            case "POST", ["subjects", subject]:
                return self._lookup(subject, body["schema"])
            case "POST", ["subjects", subject, "versions"]:
                return self._register(subject, body["schema"])
            case "GET", ["subjects", subject, "versions", version]:
                versions = self.subjects.get(subject)
                if not versions:
                    return _error(404, 40401)
                at = len(versions) if version == "latest" else int(version)
                status, found = self._schema(versions[at - 1])
                return status, {**found, "subject": subject, "version": at}
            case "GET", ["config"]:
                return 200, {"compatibilityLevel": "BACKWARD"}
            case "GET", ["config", subject]:
                level = self.compatibility.get(subject)
                return (200, {"compatibilityLevel": level}) if level else _error(404, 40408)
        return _error(404, 404)

    def _schema(self, id: int) -> Answer:
        if id not in self.texts:
            return _error(404, 40403)
        found: dict[str, Any] = {"schema": self.texts[id]}
        if id in self.types:
            found["schemaType"] = self.types[id]
        if id in self.references:
            found["references"] = self.references[id]
        return 200, found

    def _lookup(self, subject: str, text: str) -> Answer:
        if subject not in self.subjects:
            return _error(404, 40401)
        for version, id in enumerate(self.subjects[subject], 1):
            if json.loads(self.texts[id]) == json.loads(text):
                return 200, {"id": id, "subject": subject, "version": version, "schema": self.texts[id]}
        return _error(404, 40403)

    def _register(self, subject: str, text: str) -> Answer:
        if subject in self.subjects and not self._is_compatible(subject, text):
            return _error(409, 409)
        return 200, {"id": self.add(subject, text)}

    def _is_compatible(self, subject: str, text: str) -> bool:
        if self.compatibility.get(subject, "BACKWARD") == "NONE":
            return True
        old = {field["name"] for field in json.loads(self.texts[self.subjects[subject][-1]])["fields"]}
        return all(field["name"] in old or "default" in field for field in json.loads(text)["fields"])


def later(seconds: int) -> Callable[[BaseHTTPRequestHandler], None]:
    """A fault: a registry that wants to be asked after some seconds."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(429)
        request.send_header("Retry-After", str(seconds))
        request.send_header("Content-Length", "0")
        request.end_headers()

    return answer


def _error(status: int, code: int) -> Answer:
    return status, {"error_code": code, "message": f"error {code}"}


@contextmanager
def serving(fake: FakeRegistry) -> Iterator[FakeRegistry]:
    """Serve a registry at `fake.url`, below a path, as Apicurio's."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fake.headers.append(dict(self.headers))
            path = urlsplit(self.path).path.removeprefix("/api")
            fake.asked.append((self.command, path))
            fake.bodies.append(json.loads(body or b"null"))
            fault = fake.faults.pop(0) if fake.faults else None
            if callable(fault):
                fault(self)
                return
            status, found = fault or fake.answer(self.command, path, fake.bodies[-1])
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _any

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}/api"
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class MemoryRegistry:
    """Schemas and ids in memory, for tests without a network: a `relay.io.resolver.Registry`."""

    def __init__(self) -> None:
        self.fake = FakeRegistry()

    def schema(self, id: int | str) -> RegisteredSchema:
        return RegisteredSchema(self.fake.texts[int(id)])

    def id_of(self, subject: str, schema: RegisteredSchema) -> int:
        return self.fake.add(subject, schema.text)
