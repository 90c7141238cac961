"""The client of schema registries: what it asks, keeps, tries again, and says of what goes wrong."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from fake_registry import FakeRegistry, later, serving

from relay.io.registry import RegistrySettings, SchemaRegistry, registry_problems
from relay.io.registry.transport import ANSWER_BYTES
from relay.model.errors import ConfigError, RegistryUnavailable, SchemaMissing, SchemaRefused
from relay.model.lookups import RegisteredSchema

SUBJECT = "shop.orders-value"


def record(*fields: Any, name: str = "orders") -> RegisteredSchema:
    """A schema of columns: the names of those of type int, or fields as they are."""
    made = [{"name": field, "type": "int"} if isinstance(field, str) else field for field in fields]
    return RegisteredSchema(json.dumps({"type": "record", "name": name, "fields": made}))


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with serving(FakeRegistry()) as found:
        yield found


class Waits:
    """A clock that only notes for how long somebody waited."""

    def __init__(self) -> None:
        self.all: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.all.append(seconds)


def client(
    *urls: str,
    waits: Waits | None = None,
    retries: int = 3,
    max_characters: int = ANSWER_BYTES,
    **more: Any,
) -> SchemaRegistry:
    settings = RegistrySettings(table="target.schema_registry", urls=urls, **more)
    return SchemaRegistry(settings, retries=retries, max_characters=max_characters, sleep=waits or Waits())


# ---------------------------------------------------------------- what is asked


def test_a_schema_is_registered_once_and_looked_up_afterwards(fake: FakeRegistry) -> None:
    schema = record("id")
    assert client(fake.url).id_of(SUBJECT, schema) == 1
    assert client(fake.url + "/").id_of(SUBJECT, schema) == 1
    assert len(fake.registrations()) == 1


def test_a_change_of_a_table_is_one_new_version(fake: FakeRegistry) -> None:
    registry = client(fake.url)
    first = registry.id_of(SUBJECT, record("id"))
    added = {"name": "a", "type": ["null", "int"], "default": None}
    second = registry.id_of(SUBJECT, record("id", added))
    assert registry.id_of(SUBJECT, record("id")) == first != second
    assert fake.subjects == {SUBJECT: [first, second]}


def test_subjects_are_escaped(fake: FakeRegistry) -> None:
    client(fake.url).id_of(":.ctx:a/b %-value", record("id"))
    assert list(fake.subjects) == [":.ctx:a/b %-value"]
    assert fake.asked[0] == ("POST", "/subjects/%3A.ctx%3Aa%2Fb%20%25-value")


def test_a_schema_is_found_by_its_id_and_its_guid(fake: FakeRegistry) -> None:
    fake.add(SUBJECT, record("id").text)
    assert client(fake.url).schema(1) == record("id")
    assert client(fake.url).schema("00000000-0000-0000-0000-000000000001") == record("id")


def test_schemas_that_one_refers_to_come_with_it_those_that_others_need_first(fake: FakeRegistry) -> None:
    inner, middle = (
        fake.add("inner", record("i", name="I").text),
        fake.add("middle", record("m", name="M").text),
    )
    outer = fake.add("outer", record("o", name="O").text)
    fake.references[middle] = [{"name": "I", "subject": "inner", "version": 1}]
    fake.references[outer] = [
        {"name": "M", "subject": "middle", "version": 1},
        {"name": "I", "subject": "inner", "version": 1},
    ]
    found = client(fake.url).schema(outer)
    assert found.references == (("I", fake.texts[inner]), ("M", fake.texts[middle]))


def test_a_schema_that_is_registered_again_is_sent_with_all_that_it_had(fake: FakeRegistry) -> None:
    reference = {"name": "I", "subject": "inner", "version": 1}
    fake.add("inner", record("i", name="I").text)
    id = fake.add(SUBJECT, record("id").text)
    fake.references[id], fake.types[id] = [reference], "JSON"
    client(fake.url).register_again(SUBJECT)
    assert fake.bodies[-1] == {
        "schema": record("id").text,
        "schemaType": "JSON",
        "references": [reference],
    }
    client(fake.url).register_again("inner")
    assert fake.bodies[-1] == {"schema": record("i", name="I").text}


def test_what_is_no_avro_keeps_its_kind(fake: FakeRegistry) -> None:
    fake.types[fake.add(SUBJECT, "{}")] = "JSON"
    assert client(fake.url).schema(1).kind == "JSON"


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ({"username": "u", "password": "p%40:"}, "Basic " + base64.b64encode(b"u:p%40:").decode()),
        ({"bearer_token": "a.b.c"}, "Bearer a.b.c"),
    ],
)
def test_credentials_are_sent_as_they_are(fake: FakeRegistry, given: dict[str, Any], header: str) -> None:
    client(fake.url, **given).id_of(SUBJECT, record("id"))
    assert fake.headers[0]["Authorization"] == header


@pytest.mark.parametrize("key", ["password", "bearer_token"])
def test_secrets_come_from_files_and_are_in_no_repr(fake: FakeRegistry, key: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("verysecret\n")
    given: dict[str, Any] = {f"{key}_file": str(tmp_path / "secret"), "username": "u" * (key == "password")}
    client(fake.url, **given).subjects()
    login = {
        "password": "Basic " + base64.b64encode(b"u:verysecret").decode(),
        "bearer_token": "Bearer verysecret",
    }
    assert fake.headers[0]["Authorization"] == login[key]
    settings = RegistrySettings(table="t", urls=(), password="verysecret", bearer_token="verysecret")
    assert "verysecret" not in repr(settings)


@pytest.mark.parametrize("key", ["password", "bearer_token"])
def test_a_secret_that_was_renewed_is_read_when_the_old_one_is_refused(
    fake: FakeRegistry, key: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old")
    given: dict[str, Any] = {f"{key}_file": str(secret), "username": "u" * (key == "password")}
    registry = client(fake.url, **given)
    fake.faults = [(401, {})]
    with pytest.raises(SchemaRefused, match="status 401"):
        registry.subjects()
    assert len(fake.asked) == 1  # the same secret would be refused again
    secret.write_text("new")
    fake.faults = [(401, {})]
    assert registry.subjects() == registry.subjects() == []
    old, new = fake.headers[1]["Authorization"], fake.headers[2]["Authorization"]
    assert [each["Authorization"] for each in fake.headers] == [old, old, new, new]
    secret.write_text("newer")
    fake.faults = [(401, {})] * 2
    with pytest.raises(SchemaRefused, match="status 401"):
        registry.subjects()
    assert len(fake.asked) == 6
    secret.write_text("\n")  # it is being written
    fake.faults = [(401, {})]
    with pytest.raises(SchemaRefused, match="status 401"):
        registry.subjects()
    assert len(fake.asked) == 7
    secret.unlink()
    fake.faults = [(401, {})]
    with pytest.raises(SchemaRefused, match="status 401"):
        registry.subjects()
    assert fake.headers[-1]["Authorization"] == fake.headers[5]["Authorization"]


# ---------------------------------------------------------------- what is tried again


@pytest.mark.parametrize("status", [302, 408, 425, 429, 500, 501, 502, 503, 504, 505, 520])
def test_passing_faults_are_tried_again(fake: FakeRegistry, status: int) -> None:
    fake.faults = [(status, {"error_code": 50001})] * 3
    waits = Waits()
    assert client(fake.url, waits=waits).id_of(SUBJECT, record("id")) == 1
    assert len(waits.all) == 3
    assert all(wait <= longest for wait, longest in zip(waits.all, (0.5, 1.0, 2.0), strict=True))


def test_a_registry_says_when_to_come_back(fake: FakeRegistry) -> None:
    fake.faults, waits = [later(7)], Waits()
    client(fake.url, waits=waits).subjects()
    assert waits.all == [7.0]
    fake.faults = [later(7)]
    with pytest.raises(RegistryUnavailable) as raised:
        client(fake.url, retries=0).subjects()
    assert raised.value.retry_after_seconds == 7


def test_it_gives_up_at_last(fake: FakeRegistry) -> None:
    fake.faults = [(503, "")] * 9
    with pytest.raises(RegistryUnavailable, match=r"cannot be reached: status 503"):
        client(fake.url, retries=2).id_of(SUBJECT, record("id"))
    assert len(fake.asked) == 3


def test_another_url_is_asked_and_stays_the_first_one(fake: FakeRegistry) -> None:
    away = "http://127.0.0.1:9"
    registry = client(away, fake.url, retries=0)
    assert registry.id_of(SUBJECT, record("id")) == 1
    assert registry.subjects() == [SUBJECT]
    with pytest.raises(RegistryUnavailable, match="Connection refused"):
        client(away, retries=0).subjects()


def test_an_id_that_comes_late_is_waited_for(fake: FakeRegistry) -> None:
    fake.add(SUBJECT, record("id").text)
    fake.faults = [(404, {"error_code": 40403})] * 2
    assert client(fake.url).schema(1) == record("id")


def test_an_id_that_is_not_there_is_asked_for_once_in_a_while(fake: FakeRegistry) -> None:
    registry = client(fake.url, retries=1)
    for _ in range(3):
        with pytest.raises(SchemaMissing, match="has no schema 7"):
            registry.schema(7)
    assert len(fake.asked) == 2


def test_a_registry_that_knows_no_guids_is_named_as_a_reason(fake: FakeRegistry) -> None:
    with pytest.raises(SchemaMissing, match=r"has no schema 0{8}-.*Confluent Platform 8\.0"):
        client(fake.url, retries=0).schema("00000000-0000-0000-0000-000000000001")


#: What something says that is no registry, or does not know the path: an ingress, Apicurio at another URL, and
#: with GUIDs, Confluent and Karapace, Redpanda, a gateway.
NO_REGISTRY = [
    b"404 page not found\n",
    b"",
    {"detail": "NotFoundException: RESTEASY003210: Could not find resource", "status": 404},
    {"error_code": 404, "message": "HTTP 404 Not Found"},
    {"code": 404, "message": "Not found"},
    [],
    {"error_code": "404"},
]


@pytest.mark.parametrize("body", NO_REGISTRY)
def test_what_is_not_said_by_a_registry_is_no_word_about_a_schema(fake: FakeRegistry, body: Any) -> None:
    fake.add(SUBJECT, record("id").text)
    calls: list[Callable[[SchemaRegistry], object]] = [
        lambda registry: registry.schema(1),
        lambda registry: registry.id_of(SUBJECT, record("id", "b")),
    ]
    for call in calls:
        fake.faults = [(404, body)] * 2
        with pytest.raises(RegistryUnavailable, match=r"status 404, .*is the URL that .* /apis/ccompat/v7"):
            call(client(fake.url, retries=1))
    assert (fake.registrations(), fake.faults) == ([], [])
    fake.faults = [(404, body)]
    assert client(fake.url, fake.url + "/", retries=0).schema(1) == record("id")


@pytest.mark.parametrize("body", NO_REGISTRY)
def test_a_registry_that_does_not_know_the_path_of_guids_lacks_the_schema(
    fake: FakeRegistry, body: Any
) -> None:
    guid = "00000000-0000-0000-0000-000000000001"
    fake.faults = [(404, body)]
    with pytest.raises(SchemaMissing, match=r"has no schema 0{8}-.*Confluent Platform 8\.0"):
        client(fake.url, retries=0).schema(guid)
    fake.faults = [(404, body), (403, {})]
    with pytest.raises(SchemaMissing):
        client(fake.url, retries=0).schema(guid)
    fake.faults = [(404, body)] * 2
    with pytest.raises(RegistryUnavailable, match="is the URL that"):
        client(fake.url, retries=0).schema(guid)


def test_a_registry_that_names_what_it_lacks_is_not_asked_what_it_is(fake: FakeRegistry) -> None:
    for message in ("Schema not found", None):
        fake.faults = [(404, {"error_code": 40403, "message": message})]
        with pytest.raises(SchemaMissing):
            client(fake.url, retries=0).schema("00000000-0000-0000-0000-000000000001")
    assert [path.split("/")[2] for _, path in fake.asked] == ["guids"] * 2


def test_references_that_end_nowhere_are_refused_and_those_in_a_circle_end(fake: FakeRegistry) -> None:
    one, two = fake.add("one", record("i", name="I").text), fake.add("two", record("m", name="M").text)
    fake.references[one] = [{"name": "M", "subject": "two", "version": 1}]
    fake.references[two] = [{"name": "I", "subject": "one", "version": 1}]
    assert [name for name, _ in client(fake.url).schema(one).references] == ["I", "M"]
    fake.references[two] = [{"name": "X", "subject": "nowhere", "version": 1}]
    with pytest.raises((SchemaMissing, SchemaRefused)):
        client(fake.url).schema(one)


def test_an_answer_without_an_end_is_left(fake: FakeRegistry) -> None:
    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        piece = b" " * (1 << 20)
        try:
            for _ in range(2 * ANSWER_BYTES // len(piece)):
                request.wfile.write(piece)
        except OSError:
            pass

    fake.faults = [endless]
    with pytest.raises(RegistryUnavailable, match=f"more than {ANSWER_BYTES} bytes"):
        client(fake.url, retries=0).subjects()


Write = Callable[[BaseHTTPRequestHandler], Iterator[bytes]]


def _continues(_: BaseHTTPRequestHandler) -> Iterator[bytes]:
    while True:
        yield b"HTTP/1.1 100 Continue\r\n\r\n"


def _dripped_status(_: BaseHTTPRequestHandler) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 "
    while True:
        yield b"O"


def _dripped_headers(_: BaseHTTPRequestHandler) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nX: "
    while True:
        yield b"x"


def _dripped_body(_: BaseHTTPRequestHandler) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"
    while True:
        yield b" "


def _dripped_chunks(_: BaseHTTPRequestHandler) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    while True:
        yield b"1\r\n \r\n"


@pytest.mark.parametrize("pause", [0.0, 0.02])
@pytest.mark.parametrize(
    "pieces", [_continues, _dripped_status, _dripped_headers, _dripped_body, _dripped_chunks]
)
def test_one_deadline_holds_for_the_whole_exchange(fake: FakeRegistry, pieces: Write, pause: float) -> None:
    def drip(request: BaseHTTPRequestHandler) -> None:
        with suppress(OSError):
            for piece in pieces(request):
                request.wfile.write(piece)
                request.wfile.flush()
                time.sleep(pause)

    fake.faults = [drip]
    began = time.monotonic()
    with pytest.raises(RegistryUnavailable):
        client(fake.url, retries=0, timeout_seconds=0.4).subjects()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("kind", ["length", "chunks"])
def test_an_answer_that_ends_early_is_none_and_asked_for_again(fake: FakeRegistry, kind: str) -> None:
    def short(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        if kind == "length":
            request.send_header("Content-Length", "100")
            request.end_headers()
            request.wfile.write(b'{"schema":')
        else:
            request.send_header("Transfer-Encoding", "chunked")
            request.end_headers()
            request.wfile.write(b'64\r\n{"schema":')
        request.close_connection = True

    fake.add(SUBJECT, record("id").text)
    fake.faults = [short]
    assert client(fake.url).schema(1) == record("id")
    fake.faults = [short]
    with pytest.raises(RegistryUnavailable, match="ended before its announced length"):
        client(fake.url, retries=0).schema(1)


def test_schemas_that_one_refers_to_have_a_bound_together(fake: FakeRegistry) -> None:
    names = [f"R{at}" for at in range(8)]
    for name in names:
        fake.add(name, record("a", name=name).text)
    outer = fake.add(SUBJECT, record("id").text)
    fake.references[outer] = [{"name": name, "subject": name, "version": 1} for name in names]
    size = len(record("a", name="R0").text)
    assert len(client(fake.url, max_characters=8 * size).schema(outer).references) == 8
    with pytest.raises(SchemaRefused, match="refers to schemas of more than"):
        client(fake.url, max_characters=4 * size).schema(outer)


def test_redirects_are_not_followed(fake: FakeRegistry) -> None:
    def elsewhere(request: BaseHTTPRequestHandler) -> None:
        request.send_response(307)
        request.send_header("Location", "http://127.0.0.1:9/")
        request.send_header("Content-Length", "0")
        request.end_headers()

    fake.faults = [elsewhere]
    with pytest.raises(RegistryUnavailable, match="status 307, and redirects are not followed"):
        client(fake.url, bearer_token="t", retries=0).subjects()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_said_at_once(fake: FakeRegistry, status: int) -> None:
    fake.faults = [(status, {"message": "no"})]
    waits = Waits()
    with pytest.raises(SchemaRefused, match=r"target.schema_registry.username") as raised:
        client(fake.url, waits=waits, username="u", password="hunter22").id_of(SUBJECT, record("id"))
    assert (waits.all, "hunter22" in str(raised.value)) == ([], False)


@pytest.mark.parametrize("code", [409, 40901])
def test_an_incompatible_schema_says_field_rule_and_remedy(fake: FakeRegistry, code: int) -> None:
    registry = client(fake.url)
    registry.id_of(SUBJECT, record("id"))
    fake.faults = [(404, {"error_code": 40403}), (409, {"error_code": code, "message": "details: [...]"})]
    with pytest.raises(SchemaRefused) as raised:
        registry.id_of(SUBJECT, record("id", "b"))
    text = str(raised.value)
    for part in (SUBJECT, "field 'b' is new and has no default", "BACKWARD", "NONE", "details: [...]"):
        assert part in text
    assert fake.subjects[SUBJECT] == [1]


def test_without_register_nothing_is_registered(fake: FakeRegistry) -> None:
    fake.add(SUBJECT, record("id").text)
    registry = client(fake.url, register_schemas=False)
    assert registry.id_of(SUBJECT, record("id")) == 1
    with pytest.raises(SchemaRefused, match="register_schemas = false"):
        registry.id_of(SUBJECT, record("id", {"name": "a", "type": "int", "default": 0}))
    assert fake.registrations() == []


@pytest.mark.parametrize("answer", [{"id": 0}, {"id": -1}, {}, {"id": 1 << 31}, b"[" * 9999])
def test_an_answer_that_is_none_is_refused(fake: FakeRegistry, answer: Any) -> None:
    fake.faults = [(200, answer)]
    with pytest.raises(SchemaRefused):
        client(fake.url).id_of(SUBJECT, record("id"))


# ---------------------------------------------------------------- what is kept


def test_what_was_answered_once_is_there_while_the_registry_is_away(
    fake: FakeRegistry, tmp_path: Path
) -> None:
    kept: dict[str, Any] = {"cache_dir": str(tmp_path), "retries": 0}
    registry = client(fake.url, **kept)
    id = registry.id_of(SUBJECT, record("id"))
    assert registry.schema(id) == record("id")
    fake.faults = [(503, "")] * 99
    again = client(fake.url, **kept)
    assert (again.id_of(SUBJECT, record("id")), again.schema(id)) == (id, record("id"))
    with pytest.raises(RegistryUnavailable):
        again.schema(id + 1)
    with pytest.raises(RegistryUnavailable):
        client(fake.url + "/other", **kept).schema(id)


@pytest.mark.parametrize(
    "fault",
    [*((404, body) for body in NO_REGISTRY), (200, b"<html>"), (200, b""), (204, b"")]
    + [(status, b"") for status in (302, 308, 425, 501, 505, 520)],
)
def test_what_is_no_answer_of_a_registry_is_no_reason_to_forget(
    fake: FakeRegistry, tmp_path: Path, fault: Any
) -> None:
    kept: dict[str, Any] = {"cache_dir": str(tmp_path), "retries": 0}
    id = client(fake.url, **kept).id_of(SUBJECT, record("id"))
    assert client(fake.url, **kept).schema(id) == record("id")
    again = client(fake.url, **kept)
    fake.faults = [fault] * 2
    assert (again.schema(id), again.id_of(SUBJECT, record("id"))) == (record("id"), id)
    fake.faults = [fault]
    with pytest.raises(RegistryUnavailable):
        again.schema(id + 1)


def test_a_registry_that_answers_is_believed_more_than_what_is_kept(
    fake: FakeRegistry, tmp_path: Path
) -> None:
    registry = client(fake.url, cache_dir=str(tmp_path), retries=0)
    assert registry.id_of(SUBJECT, record("id")) == 1
    fake.texts.clear()
    fake.subjects.clear()
    fake.add("other", record("x").text)
    assert registry.schema(1) == record("x")
    assert registry.id_of(SUBJECT, record("id")) == 2


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("registry:8081", "is not an address"),
        ("ftp://registry", "is not an address"),
        ("http://u:p@registry", "contains a user or a password"),
        ("https://registry?x=1", "has parameters"),
        ("http://registry", "sends credentials over http://"),
        ("https://registry", ""),
        ("http://localhost:8081/apis/ccompat/v7", ""),
    ],
)
def test_urls_are_checked_before_anything_is_asked(url: str, fault: str) -> None:
    settings = RegistrySettings(table="source.schema_registry", urls=(url,), bearer_token="t")
    found = registry_problems(settings, allow_http=False)
    assert [problem.message[: len(fault)] for problem in found] == ([fault] if fault else [])


def test_files_that_cannot_be_used_are_named() -> None:
    settings = RegistrySettings(
        table="source.schema_registry",
        urls=("http://localhost",),
        ca_file="/nowhere",
        bearer_token_file="/nowhere",
    )
    with pytest.raises(ConfigError) as raised:
        SchemaRegistry(settings)
    assert [problem.path for problem in raised.value.problems] == [
        "source.schema_registry.bearer_token_file",
        "source.schema_registry.ca_file",
    ]
