"""What a translator may lack: it names the thing, a driver fetches and provides it, and calls again.

    while True:
        try:
            return translator.translate(record)
        except Need as need:
            translator.provide(need, resolver.fetch(need))

So the core waits for nothing. `relay.io.resolver.Resolver.translate` is this loop. A `Need` is not an error
and not a `RelayError`: nothing has changed when it is raised. Equal needs have equal answers; a translator
keeps the answers (`LookupCache`), and its decoder and encoder look them up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

import msgspec

from relay.model.events import Position, TableId, TableSchema
from relay.model.limits import DEFAULT_LIMITS, Limits

Answer = TypeVar("Answer")


class Need(Exception, Generic[Answer]):
    """Something outside the record without which it cannot be translated.

    Two needs with the same arguments are equal. `answer_type` is what `LookupCache.provide` accepts.
    `is_immutable`: the answer never changes, so it may be kept over restarts (`relay.io.resolver`).
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
        """Name the thing in words; shows no secret."""
        raise NotImplementedError


class ClaimCheck(Need[bytes]):
    """An object in external storage that holds a message too large for Kafka; the answer is its bytes.

    `storage` is the configured URI, which may hold secrets and is never shown; `name` the object's name in
    it, a checked UUID with `.json`. The URI inside the message is untrusted and never used. Whoever fetches
    reads at most one byte more than `most_bytes`: then the codec refuses the object.
    """

    answer_type = bytes

    def __init__(self, storage: str, name: str, most_bytes: int = DEFAULT_LIMITS.claim_check_bytes) -> None:
        super().__init__(storage, name)
        self.storage, self.name, self.most_bytes = storage, name, most_bytes

    def what(self) -> str:
        """Name the object."""
        return f"the claim-check object {self.name}"


#: Registries count schemas from 1, and a message has four bytes with a sign for the number.
LARGEST_SCHEMA_ID: Final = (1 << 31) - 1


class RegisteredSchema(msgspec.Struct, frozen=True):
    """A schema as a registry has it: its text, `kind` in the registry's words (AVRO, JSON, PROTOBUF), and the
    texts of the schemas that it refers to, by name.
    """

    text: str
    kind: str = "AVRO"
    references: tuple[tuple[str, str], ...] = ()


class SchemaById(Need[RegisteredSchema]):
    """The schema that a registry has under an id: a number, or the text of a GUID."""

    answer_type = RegisteredSchema
    is_immutable = True

    def __init__(self, registry: str, id: int | str) -> None:
        super().__init__(registry, id)
        self.registry, self.id = registry, id

    def what(self) -> str:
        """Name the schema."""
        return f"the schema with id {self.id}"


class SchemaId(Need[int]):
    """The id under which a registry has a schema in a subject, where it is registered if it is new."""

    answer_type = int
    is_immutable = True

    def __init__(self, registry: str, subject: str, schema: RegisteredSchema) -> None:
        super().__init__(registry, subject, schema)
        self.registry, self.subject, self.schema = registry, subject, schema

    def what(self) -> str:
        """Name the subject."""
        return f"the id of a schema in subject {self.subject}"


class TableDefinition(Need[TableSchema]):
    """The definition that a table has at a position of the stream."""

    answer_type = TableSchema
    is_immutable = True

    def __init__(self, table: TableId, at: Position) -> None:
        super().__init__(table, at)
        self.table, self.at = table, at

    def what(self) -> str:
        """Name the table."""
        return f"the definition of table {self.table}"


#: What `LookupCache` keeps beyond those of the record at hand; `Limits.cache_bytes` bounds the bytes of
#: objects and schemas.
_MAX_ANSWERS: Final = 10_000


class LookupCache:
    """What a decoder or an encoder is handed besides its options: answers to needs, and the limits.

    Answers are kept within a bound: those that were looked up least recently go first. What the record at
    hand needs stays until another record needs something, however large it is: a record that needs several
    objects would never have all of them otherwise.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        #: What one record may cost, and how large a cache may become.
        self.limits = limits
        self._answers: dict[Need[Any], Any] = {}
        self._bytes = 0
        #: The record that asked last, and what it needs, which stays until another one asks.
        self._record: object = None
        self._pinned: set[Need[Any]] = set()

    def find(self, need: Need[Answer]) -> Answer:
        """Return the answer. Raises the need itself as long as there is none."""
        if need not in self._answers:
            raise need
        # Last in the order: used most recently.
        answer = self._answers[need] = self._answers.pop(need)
        return cast("Answer", answer)

    def known(self, need: Need[Answer]) -> Answer | None:
        """Return the answer, None if there is none."""
        return cast("Answer | None", self._answers.get(need))

    def want(self, need: Need[Any], record: object) -> None:
        """Note which record needs this: what another one needed may go from now on."""
        if record != self._record:
            self._record = record
            self._pinned.clear()
        # Not the need that was raised, which holds frames of the call.
        self._pinned.add(type(need)(*need.args))

    def distrust(self, record: object) -> None:
        """Forget what a record needed that could not be read with it, unless it never changes.

        An object may have been fetched before it was complete; it is asked for again.
        """
        if record == self._record:
            for need in self._pinned:
                if not need.is_immutable:
                    self._forget(need)

    def provide(self, need: Need[Answer], answer: Answer) -> None:
        """Keep an answer. Raises TypeError if it is not of the need's type."""
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
        return len(self._answers) > _MAX_ANSWERS or self._bytes > self.limits.cache_bytes

    def _forget(self, need: Need[Any]) -> None:
        if need in self._answers:
            self._bytes -= _size(need, self._answers.pop(need))

    def __iter__(self) -> Iterator[tuple[Need[Any], Any]]:
        return iter(list(self._answers.items()))


def _size(need: Need[Any], answer: object) -> int:
    """Bytes of an answer, and of the schema that its need may hold, which is what costs with an id."""
    return sum(map(_bytes, (*need.args, answer)))


def _bytes(part: object) -> int:
    if isinstance(part, RegisteredSchema):
        return len(part.text) + sum(len(text) for _, text in part.references)
    return len(part) if isinstance(part, bytes) else 0
