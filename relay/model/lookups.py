"""External lookups: a translator raises the lookup it needs; a driver fetches the answer and retries.

    while True:
        try:
            return translator.translate(record)
        except Need as need:
            translator.provide(need, resolver.fetch(need))

The core therefore never waits. `relay.io.resolver.Resolver.translate` is this loop. A `Need` is not a
`RelayError`: raising it changes no state. Equal needs have equal answers. A translator keeps the answers in a
`LookupCache`, from which its decoder and encoder read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

import msgspec

from relay.model.events import Position, TableId, TableSchema
from relay.model.limits import DEFAULT_LIMITS, Limits

Answer = TypeVar("Answer")


class Need(Exception, Generic[Answer]):
    """External data without which a record cannot be translated.

    Two needs with the same arguments are equal. `answer_type` is the type that `LookupCache.provide` accepts.
    `is_immutable`: the answer never changes, so it may be kept across restarts (`relay.io.resolver`).
    """

    answer_type: ClassVar[type]
    is_immutable: ClassVar[bool] = False

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.args == cast("Need[Any]", other).args

    def __hash__(self) -> int:
        return hash((type(self), self.args))

    def __str__(self) -> str:
        return (
            f"{self.what()} is needed: call Resolver().translate(translator, record), which fetches it, "
            "or fetch it, give it to Translator.provide, and call again"
        )

    def __repr__(self) -> str:
        # The arguments may hold secrets.
        return f"{type(self).__name__}({self.what()})"

    def what(self) -> str:
        """Return a description for error messages, without secrets."""
        raise NotImplementedError


class ClaimCheck(Need[bytes]):
    """An object in external storage that holds a message too large for Kafka; the answer is its bytes.

    `storage` is the configured URI, which may contain secrets and is never shown; `name` is the object's name
    in it, a checked UUID with `.json`. The URI inside the message is untrusted and never used. A resolver
    reads at most one byte more than `most_bytes`; the codec then refuses the object.
    """

    answer_type = bytes

    def __init__(self, storage: str, name: str, most_bytes: int = DEFAULT_LIMITS.claim_check_bytes) -> None:
        super().__init__(storage, name)
        self.storage, self.name, self.most_bytes = storage, name, most_bytes

    def what(self) -> str:
        """Describe the object."""
        return f"the claim-check object {self.name}"


#: Registries number schemas from 1, and a message has a signed 32-bit integer for the id.
LARGEST_SCHEMA_ID: Final = (1 << 31) - 1


class RegisteredSchema(msgspec.Struct, frozen=True):
    """A schema in a registry: its text, its `kind` in the registry's terms (AVRO, JSON, PROTOBUF), and the
    names and texts of the schemas that it refers to.
    """

    text: str
    kind: str = "AVRO"
    references: tuple[tuple[str, str], ...] = ()


class SchemaById(Need[RegisteredSchema]):
    """The schema with an id in a registry: a number, or the text of a GUID."""

    answer_type = RegisteredSchema
    is_immutable = True

    def __init__(self, registry: str, id: int | str) -> None:
        super().__init__(registry, id)
        self.registry, self.id = registry, id

    def what(self) -> str:
        """Describe the schema."""
        return f"the schema with id {self.id}"


class SchemaId(Need[int]):
    """The id of a schema in a registry's subject; a new schema is registered there."""

    answer_type = int
    is_immutable = True

    def __init__(self, registry: str, subject: str, schema: RegisteredSchema) -> None:
        super().__init__(registry, subject, schema)
        self.registry, self.subject, self.schema = registry, subject, schema

    def what(self) -> str:
        """Describe the subject."""
        return f"the id of a schema in subject {self.subject}"


class TableDefinition(Need[TableSchema]):
    """The definition of a table at a position of the stream."""

    answer_type = TableSchema
    is_immutable = True

    def __init__(self, table: TableId, at: Position) -> None:
        super().__init__(table, at)
        self.table, self.at = table, at

    def what(self) -> str:
        """Describe the table."""
        return f"the definition of table {self.table}"


MAX_ANSWERS: Final = 10_000


class LookupCache:
    """The answers to lookups, and the limits, that every decoder and encoder receives.

    The number and size of answers are bounded; the least recently used are evicted first. The answers that
    the current record needs stay until another record needs something, regardless of size: otherwise a record
    that needs several objects would never have all of them.

    limits: Limits on the cost of one record, and on the size of caches. `cache_bytes` bounds the bytes of
        objects and schemas.
    max_answers: Maximum number of answers, besides those of the current record.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, max_answers: int = MAX_ANSWERS) -> None:
        self.limits, self._max_answers = limits, max_answers
        self._answers: dict[Need[Any], Any] = {}
        self._bytes = 0
        #: The record with the latest lookup, and its needs, whose answers are not evicted.
        self._record: object = None
        self._pinned: set[Need[Any]] = set()

    def find(self, need: Need[Answer]) -> Answer:
        """Return the answer. Raises the need itself if there is none yet."""
        if need not in self._answers:
            raise need
        # Last in the order: used most recently.
        answer = self._answers[need] = self._answers.pop(need)
        return cast("Answer", answer)

    def known(self, need: Need[Answer]) -> Answer | None:
        """Return the answer; None if there is none."""
        return cast("Answer | None", self._answers.get(need))

    def pin(self, need: Need[Any], record: object) -> None:
        """Pin the answer to a record's need; answers that only another record needed become evictable."""
        if record != self._record:
            self._record = record
            self._pinned.clear()
        # A copy: the need that was raised references frames of the call.
        self._pinned.add(type(need)(*need.args))

    def distrust(self, record: object) -> None:
        """Forget a record's answers that may change, after the record could not be read with them.

        An object may have been fetched before it was complete; it will be fetched again.
        """
        if record == self._record:
            for need in self._pinned:
                if not need.is_immutable:
                    self._forget(need)

    def provide(self, need: Need[Answer], answer: Answer) -> None:
        """Store an answer. Raises TypeError if it is not of the need's type."""
        if not isinstance(answer, need.answer_type) or isinstance(answer, bool):
            raise TypeError(f"{need.what()} is {need.answer_type.__name__}, not {type(answer).__name__}")
        self._forget(need)
        self._answers[need] = answer
        self._bytes += _size(need, answer)
        if self._is_full():
            for other in [each for each in self._answers if each not in self._pinned and each != need]:
                self._forget(other)
                if not self._is_full():
                    break

    def _is_full(self) -> bool:
        return len(self._answers) > self._max_answers or self._bytes > self.limits.cache_bytes

    def _forget(self, need: Need[Any]) -> None:
        if need in self._answers:
            self._bytes -= _size(need, self._answers.pop(need))

    def __iter__(self) -> Iterator[tuple[Need[Any], Any]]:
        return iter(list(self._answers.items()))


def _size(need: Need[Any], answer: object) -> int:
    """Return the bytes of an answer and of a schema in its need: for an id, the schema dominates."""
    return sum(map(_bytes, (*need.args, answer)))


def _bytes(part: object) -> int:
    if isinstance(part, RegisteredSchema):
        return len(part.text) + sum(len(text) for _, text in part.references)
    return len(part) if isinstance(part, bytes) else 0
