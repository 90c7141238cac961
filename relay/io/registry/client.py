"""A client for registries with Confluent's REST API: Confluent, Apicurio (`ccompat`), Karapace, Redpanda.

`SchemaRegistry` is a `relay.io.resolver.Registry`. A schema is looked up before it is registered, so that
nothing is registered twice, and clients that only write known schemas need no permission to register. Answers
are kept in a folder, if one is given, and read from there as long as no registry answers. Calls block; the
service makes them in threads. Sources: confluentinc schema-registry RestService, RetryExecutor, Errors (8.x);
aiven karapace SchemaErrorCodes; redpanda; answers of Apicurio 3.3.3.
"""

from __future__ import annotations

import base64
import contextlib
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar
from urllib.parse import quote

import msgspec

from relay.io.answer_cache import AnswerCache
from relay.io.files import read_small
from relay.io.registry.incompatible import explanation
from relay.io.registry.settings import RegistrySettings, url_fault
from relay.io.registry.transport import (
    ANSWER_BYTES,
    RegistryRequest,
    RegistryUnreachable,
    Response,
    Transport,
    http_transport,
)
from relay.model.errors import ConfigError, Problem, RegistryUnavailable, SchemaMissing, SchemaRefused
from relay.model.lookups import LARGEST_SCHEMA_ID, RegisteredSchema, SchemaById, SchemaId
from relay.text.redaction import printable, quoted

Kind = TypeVar("Kind")

#: How often a request is tried again, as Confluent's clients do, and the bounds of the wait before.
RETRIES: Final = 3
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 20.0
#: Statuses below 500 after which a retry, or another URL, may help.
_TRANSIENT: Final = frozenset({408, 425, 429})
_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_ACCEPT: Final = f"{_TYPE}, application/vnd.schemaregistry+json, application/json"
_GUIDS: Final = "/schemas/guids/"
_WRONG_URL: Final = "is the URL that of the registry's API? Apicurio's ends with /apis/ccompat/v7"
#: Maximum number of schemas that one may refer to, all together.
_MOST_REFERENCES: Final = 64
_LONGEST_SAID: Final = 600
#: For how long, and for how many ids, missing ids are remembered; where the caller retries, for less than its
#: wait between two attempts.
_MISSING_SECONDS, _MISSING_ONCE_SECONDS, _MOST_MISSING = 3.0, 0.05, 10_000


class _ErrorBody(msgspec.Struct):
    """A registry's error."""

    error_code: Any = None
    message: Any = None


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Schema(msgspec.Struct, rename="camel"):
    """A registry's schema; without a type it is Avro."""

    schema: str
    schema_type: str | None = None
    references: list[_Reference] | None = None


class _Registered(msgspec.Struct):
    id: int


class _Attempt(NamedTuple):
    """The outcome of a request to all URLs.

    Either an answer, or the reason for a failure and the wait before a retry, in seconds.
    """

    response: Response | None = None
    reason: str = ""
    retry_after: float = 0.0


class SchemaRegistry:
    """A client of one registry. Raises ConfigError for settings that cannot be used.

    `retries`: how often a request is tried again before RegistryUnavailable, or SchemaMissing; 0 where the
    caller tries again. `max_characters`: limit for all schemas together that one schema refers to.
    `sleep`, and `transport`, are the clock and the network.
    """

    def __init__(
        self,
        settings: RegistrySettings,
        *,
        retries: int = RETRIES,
        max_characters: int = ANSWER_BYTES,
        transport: Transport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings, self._retries, self._sleep = settings, retries, sleep
        self._max_characters = max_characters
        problems: list[Problem] = []
        self._headers = _headers(settings, problems)
        context = _context(settings, problems)
        if problems:
            raise ConfigError(problems)
        self._ask_one = transport or http_transport(context, settings.timeout_seconds)
        self._urls = [url.rstrip("/") for url in settings.urls]
        #: The URL that answered last.
        self._at = 0
        self._cache = AnswerCache(Path(settings.cache_dir)) if settings.cache_dir else None
        self._shown = f"the schema registry {settings.shown}"
        #: Time until which missing ids are not requested again.
        self._missing: dict[int | str, float] = {}
        self._missing_seconds = _MISSING_SECONDS if retries else _MISSING_ONCE_SECONDS

    # ------------------------------------------------------------ schemas

    def schema(self, id: int | str) -> RegisteredSchema:
        """Return the schema of an id. Raises RegistryUnavailable, SchemaMissing, SchemaRefused."""
        if time.monotonic() < self._missing.get(id, 0.0):
            raise self._has_no(id)
        need = SchemaById(self._name, id)
        path = f"/schemas/ids/{id}" if isinstance(id, int) else _GUIDS + quote(id, safe="")
        try:
            found = self._read(path, f"schema {id}", is_awaited=True)
        except RegistryUnavailable:
            kept = None if self._cache is None else self._cache.find(need)
            if kept is None:
                raise
            return kept
        if found is None:
            if len(self._missing) >= _MOST_MISSING:
                self._missing.clear()
            self._missing[id] = time.monotonic() + self._missing_seconds
            raise self._has_no(id)
        if self._cache is not None:
            self._cache.keep(need, found)
        return found

    def _has_no(self, id: int | str) -> SchemaMissing:
        reason = "was the message written with another registry?"
        if isinstance(id, str):
            reason += " Registries before Confluent Platform 8.0 find no schema by its GUID"
        return SchemaMissing(f"{self._shown} has no schema {id}: {reason}")

    def _read(self, path: str, what: str, *, is_awaited: bool) -> RegisteredSchema | None:
        """Return the schema at a path with those that it refers to, None if there is none."""
        response = self._ask("GET", path, is_awaited=is_awaited)
        if response.status == 404:
            if not _is_registry_error(response):
                self._require_registry()
            return None
        found = self._parsed(response, _Schema, what)
        references: dict[str, str] = {}
        self._add_references(found, references, what)
        return RegisteredSchema(found.schema, found.schema_type or "AVRO", tuple(references.items()))

    def _require_registry(self) -> None:
        """Raise RegistryUnavailable if the server is not a registry.

        A registry without GUIDs and any other server give the same answer to the path of GUIDs, but not to
        the path requested here; whether access is permitted does not matter.
        """
        with contextlib.suppress(SchemaRefused):
            self._ask("GET", "/config")

    def _add_references(self, schema: _Schema, found: dict[str, str], what: str) -> None:
        """Add the texts of all schemas that one refers to, dependencies first."""
        for each in schema.references or ():
            if each.name in found:
                continue
            if len(found) >= _MOST_REFERENCES:
                raise SchemaRefused(f"{self._shown}: {what} refers to more than {_MOST_REFERENCES} schemas")
            found[each.name] = ""  # met, if it refers to itself
            path = f"/subjects/{quote(each.subject, safe='')}/versions/{each.version}"
            response = self._ask("GET", path)
            if response.status == 404:
                raise SchemaMissing(f"{self._shown}: {what} refers to a schema that does not exist")
            other = self._parsed(response, _Schema, what)
            self._add_references(other, found, what)
            # After those that it needs.
            del found[each.name]
            found[each.name] = other.schema
            if sum(map(len, found.values())) > self._max_characters:
                raise SchemaRefused(
                    f"{self._shown}: {what} refers to schemas of more than {self._max_characters} characters "
                    "together"
                )

    # ------------------------------------------------------------ ids

    def id_of(self, subject: str, schema: RegisteredSchema) -> int:
        """Return the id of a schema in a subject, where it is registered if it is new.

        Raises RegistryUnavailable, SchemaRefused.
        """
        need = SchemaId(self._name, subject, schema)
        try:
            found = self._looked_up(subject, schema)
            if found is None:
                found = self._register(subject, schema)
        except RegistryUnavailable:
            kept = None if self._cache is None else self._cache.find(need)
            if kept is None:
                raise
            return kept
        if self._cache is not None:
            self._cache.keep(need, found)
        return found

    def _looked_up(self, subject: str, schema: RegisteredSchema) -> int | None:
        """Return the id of a schema that is in a subject already; None if it is not."""
        path = f"/subjects/{quote(subject, safe='')}"
        response = self._ask("POST", path, _body_of(schema))
        if response.status == 404:
            return None
        return self._id(response, subject)

    def _register(self, subject: str, schema: RegisteredSchema, references: Sequence[_Reference] = ()) -> int:
        if not self._settings.register_schemas:
            raise SchemaRefused(
                f"{self._shown} has no such schema in subject {quoted(subject)}, and "
                f"{self._settings.table}.register_schemas = false forbids registering it: register "
                "it yourself, or set register_schemas to true"
            )
        path = f"/subjects/{quote(subject, safe='')}/versions"
        response = self._ask("POST", path, _body_of(schema, references))
        if response.status == 409:
            self._refuse_incompatible(subject, schema, response)
        return self._id(response, subject)

    def _refuse_incompatible(self, subject: str, schema: RegisteredSchema, response: Response) -> NoReturn:
        """Raise the error for a schema that is incompatible with earlier ones."""
        latest = None
        try:
            latest = self._read(f"/subjects/{quote(subject, safe='')}/versions/latest", "", is_awaited=False)
            level = self.compatibility(subject)
        except (RegistryUnavailable, SchemaMissing, SchemaRefused):
            level = None
        why = explanation(latest.text if latest else None, schema.text, level)
        detail = _detail(response)
        raise SchemaRefused(
            f"{self._shown} refuses a schema in subject {quoted(subject)} that is not compatible with "
            "earlier "
            f"versions: {why}" + (f"; the registry reports: {detail}" if detail else "")
        )

    def _id(self, response: Response, subject: str) -> int:
        id = self._parsed(response, _Registered, f"subject {quoted(subject)}").id
        if not 0 < id <= LARGEST_SCHEMA_ID:
            raise SchemaRefused(
                f"{self._shown} returned no usable id for a schema in subject {quoted(subject)}"
            )
        return id

    # ------------------------------------------------------------ other information

    def subjects(self) -> list[str]:
        """Return the names of all subjects. Raises RegistryUnavailable, SchemaRefused."""
        return self._parsed(self._ask("GET", "/subjects"), list[str], "the list of subjects")

    def compatibility(self, subject: str) -> str | None:
        """Return the rule by which schemas of a subject are compared, None if it is unknown.

        Raises RegistryUnavailable, SchemaRefused.
        """
        for path in (f"/config/{quote(subject, safe='')}", "/config"):
            response = self._ask("GET", path)
            if response.status == 200:
                configuration = self._parsed(response, dict[str, Any], "the configuration")
                level = configuration.get("compatibilityLevel")
                return level if isinstance(level, str) else None
        return None

    def register_again(self, subject: str) -> None:
        """Register the newest schema of a subject once more, which changes nothing.

        Raises RegistryUnavailable, SchemaMissing, SchemaRefused if that is not allowed.
        """
        response = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        if response.status == 404:
            raise SchemaMissing(f"{self._shown} has no subject {quoted(subject)}")
        newest = self._parsed(response, _Schema, f"subject {quoted(subject)}")
        schema = RegisteredSchema(newest.schema, newest.schema_type or "AVRO")
        self._register(subject, schema, newest.references or ())

    # ------------------------------------------------------------ requests

    @property
    def _name(self) -> str:
        """Return the cache key that separates this registry's answers from those of others."""
        return " ".join(sorted(self._urls))

    def _ask(
        self, method: str, path: str, body: bytes | None = None, *, is_awaited: bool = False
    ) -> Response:
        """Send a request until a URL answers. `is_awaited`: 404 may be an answer that comes too early.

        Raises RegistryUnavailable; SchemaRefused for credentials that are refused.
        """
        tried = _Attempt()
        for wait in (*_waits(self._retries), None):
            tried = self._asked(method, path, body)
            response = tried.response
            if response is not None and not (is_awaited and response.status == 404 and wait is not None):
                return self._allowed(response)
            if wait is not None:
                self._sleep(max(wait, min(tried.retry_after, _LONGEST_WAIT)))
        raise RegistryUnavailable(f"{self._shown} cannot be reached: {tried.reason}", tried.retry_after)

    def _asked(self, method: str, path: str, body: bytes | None) -> _Attempt:
        """Try each URL, beginning with the one that answered last, until one answers."""
        tried = _Attempt()
        for _ in self._urls:
            try:
                response = self._answered(method, self._urls[self._at] + path, body)
            except RegistryUnreachable as error:
                tried = _Attempt(None, str(error))
            else:
                fault = _fault(path, response)
                if not fault:
                    return _Attempt(response)
                tried = _Attempt(None, fault, response.retry_after or 0.0)
            self._at = (self._at + 1) % len(self._urls)
        return tried

    def _answered(self, method: str, url: str, body: bytes | None) -> Response:
        """Send a request to one URL; after a 401, repeat it once if the files of secrets have changed.

        Raises NoAnswer.
        """
        headers = self._headers
        response = self._ask_one(RegistryRequest(method, url, headers, body))
        if response.status == 401:
            self._read_secrets()
            if self._headers != headers:
                response = self._ask_one(RegistryRequest(method, url, self._headers, body))
        return response

    def _read_secrets(self) -> None:
        """Read the files of secrets, which may have been renewed. An unusable one changes nothing."""
        problems: list[Problem] = []
        headers = _headers(self._settings, problems, may_be_empty=False)
        if not problems:
            self._headers = headers

    def _allowed(self, response: Response) -> Response:
        if response.status in {401, 403}:
            keys = f"{self._settings.table}.username and password, or bearer_token"
            raise SchemaRefused(
                f"{self._shown} refuses the request (status {response.status}): check {keys}, and that "
                "user's permissions"
            )
        return response

    def _parsed(self, response: Response, kind: type[Kind], what: str) -> Kind:
        if response.status != 200:
            detail = _detail(response)
            raise SchemaRefused(
                f"{self._shown} refuses {what} (status {response.status})" + (f": {detail}" if detail else "")
            )
        try:
            return msgspec.json.decode(response.body, type=kind)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            raise SchemaRefused(
                f"{self._shown} returned an unexpected answer for {what}: {_WRONG_URL}"
            ) from None


def _waits(retries: int) -> Iterator[float]:
    """Yield the waits before each retry: exponential, with jitter."""
    longest = _FIRST_WAIT
    for _ in range(retries):
        yield random.uniform(0, longest)  # noqa: S311 - so that instances do not ask at once
        longest = min(_LONGEST_WAIT, 2 * longest)


def _fault(path: str, response: Response) -> str:
    """Return why an answer to a path does not come from a registry, "" if it does.

    Confluent, Karapace, Redpanda and Apicurio report missing items with status 404 and an `error_code` of
    40401 (subject), 40402 (version), 40403 (schema, also by its id) or more. For an unknown path it is 404
    (Confluent, Karapace) or absent (Redpanda, Apicurio), as in the answer of an ingress: then nothing is
    known of the schema. Only Confluent knows the path of GUIDs, which is not judged by this.
    """
    status = response.status
    if status == 404 and not path.startswith(_GUIDS) and not _is_registry_error(response):
        return f"status 404, without the error code of a registry: {_WRONG_URL}"
    if status == 200 and response.body.lstrip()[:1] not in {b"{", b"["}:
        return f"an answer that is not JSON: {_WRONG_URL}"
    if 300 <= status < 400:
        return f"status {status}, and redirects are not followed: set the URL to the redirect target"
    is_transient = status in _TRANSIENT or status >= 500
    return f"status {status}" if is_transient or (status < 400 and status != 200) else ""


def _is_registry_error(response: Response) -> bool:
    code = _error(response).error_code
    return isinstance(code, int) and code // 100 == 404


def _error(response: Response) -> _ErrorBody:
    try:
        return msgspec.json.decode(response.body, type=_ErrorBody)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _ErrorBody()


def _detail(response: Response) -> str:
    """Return a registry's own error message, "" if it has none."""
    message = _error(response).message
    return printable(message, longest=_LONGEST_SAID) if isinstance(message, str) else ""


def _body_of(schema: RegisteredSchema, references: Sequence[_Reference] = ()) -> bytes:
    """Return the request body for a schema.

    The members for the type and for references are left out for plain Avro, as older registries do not know
    them.
    """
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != "AVRO":
        body["schemaType"] = schema.kind
    if references:
        body["references"] = references
    return msgspec.json.encode(body)


# ---------------------------------------------------------------- settings


def _headers(
    settings: RegistrySettings, problems: list[Problem], *, may_be_empty: bool = True
) -> Mapping[str, str]:
    """Return the headers of each request.

    `may_be_empty`: whether files of secrets may be empty, as a file is while it is being written.
    """
    headers = {"Accept": _ACCEPT, "Accept-Encoding": "identity", "Content-Type": _TYPE}
    if settings.username:
        password = settings.password
        if settings.password_file:
            password = _secret(settings, "password_file", problems, may_be_empty=may_be_empty)
        pair = f"{settings.username}:{password}".encode()
        headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
    token = settings.bearer_token
    if settings.bearer_token_file:
        token = _secret(settings, "bearer_token_file", problems, may_be_empty=may_be_empty)
    if token:
        if not all("!" <= character <= "~" for character in token):
            problems.append(
                Problem(f"{settings.table}.bearer_token", "has characters that tokens cannot have")
            )
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _secret(settings: RegistrySettings, key: str, problems: list[Problem], *, may_be_empty: bool) -> str:
    """Read a secret from its file; a line end after it does not count."""
    name = getattr(settings, key)
    try:
        found = read_small(Path(name)).decode().rstrip("\r\n")
    except OSError as error:
        problems.append(Problem(f"{settings.table}.{key}", f"{name} cannot be read: {error.strerror}"))
    except UnicodeDecodeError:
        problems.append(Problem(f"{settings.table}.{key}", "is not text in UTF-8"))
    else:
        if not found and not may_be_empty:
            problems.append(Problem(f"{settings.table}.{key}", f"{name} is empty"))
        return found
    return ""


def _context(settings: RegistrySettings, problems: list[Problem]) -> ssl.SSLContext:
    """Return the TLS context: trusted certificates and relay's own.

    Without `ca_file`, the system's certificates are trusted.
    """
    context = ssl.create_default_context()
    if settings.ca_file:
        try:
            context = ssl.create_default_context(cafile=settings.ca_file)
        except OSError as error:  # an SSLError is one
            why = "contains no certificate" if isinstance(error, ssl.SSLError) else error.strerror
            problems.append(Problem(f"{settings.table}.ca_file", f"{settings.ca_file}: {why}"))
    if settings.certificate_file:
        try:
            # A password prompt at the terminal would stop a service.
            context.load_cert_chain(settings.certificate_file, settings.key_file or None, password=str)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            problems.append(Problem(f"{settings.table}.certificate_file", f"cannot be used: {why}"))
    return context


def registry_problems(settings: RegistrySettings, *, allow_http: bool) -> list[Problem]:
    """Return the problems of a registry's address, without contacting it."""
    problems = []
    for url in settings.urls:
        fault, hint = url_fault(url, has_credentials=settings.has_credentials, allow_http=allow_http)
        if fault:
            problems.append(Problem(f"{settings.table}.urls", fault, hint))
    return problems
