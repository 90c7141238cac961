"""The properties of a producer of Debezium JSON: the form of its columns, and which columns its rows have.

A `DebeziumDialect` knows nothing of one row. It is called when a layout is made
(`relay.codecs.debezium.shared.rows`), and its results hold for every row of that layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple, Protocol

from relay.codecs.debezium.shared.messages import Key
from relay.codecs.debezium.shared.schemas import DeclaredColumn
from relay.codecs.losses import Loss
from relay.codecs.shared.conversions import Read
from relay.model.events import Column, ColumnType, TableSchema


class DebeziumValueFormat(NamedTuple):
    """The form of a column's values: the kind of its JSON values, and the function from one to its canonical
    value (None: they are the same).

    `is_inferred`: the value itself decides how it is read. `zone`: the zone of text without one; None for a
    column whose values have no zone, or always name it. `is_too_fine`: whether `read` drops digits of a
    second of a value; None if it never does.
    """

    kind: Any
    read: Read | None = None
    is_inferred: bool = False
    zone: tzinfo | None = None
    is_too_fine: Callable[[Any], bool] | None = None


#: An ambiguous value in a message, and the loss that counts it.
AmbiguousValue = tuple[Any, Loss]
#: The columns of an image that was parsed without a layout.
Object = dict[str, Any]


class DebeziumDialect(Protocol):
    """The form of one producer's columns in rows.

    `declared`: the column in the message's schema block, None if it is missing; `value`: one of the message's
    values, the more informative one of two images.
    """

    #: Texts that mark a value which the message does not have.
    unavailable: frozenset[str]
    #: Whether keys may have other columns than the table's key, and fields that are not columns.
    reads_keys: bool
    #: Whether rows have all columns of their schema block, unless the source lacks their values.
    has_whole_rows: bool
    #: Fields of keys that are never columns.
    added_key_fields: frozenset[str]

    def key_of(self, key: bytes | None) -> Key:
        """Parse a row's Kafka key."""
        ...

    def complete(self, images: Sequence[Object | None], key: Key, wanted: frozenset[str] | None) -> None:
        """Convert parsed images to the form of layouts, for example by adding values that only the key has.

        `wanted`: the columns that a key of the table can have; None if unknown.
        """
        ...

    def has_values(self, column: Column) -> bool:
        """Return whether rows have a column of the definition."""
        ...

    def known_columns(self, known: TableSchema, names: Sequence[str]) -> Mapping[str, Column]:
        """Return the definition's columns that rows have, by their name on the wire. `names`: a message's."""
        ...

    def column_names(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the columns' names for the names in a message, for a table without a known definition."""
        ...

    def fits(self, column: Column, declared: DeclaredColumn | None, value: object) -> bool:
        """Return whether the catalog's column agrees with both the block and the value."""
        ...

    def declared_type(self, declared: DeclaredColumn, value: object) -> ColumnType | None:
        """Return the type that the block declares, None if the value contradicts it."""
        ...

    def form(
        self, column: Column, declared: DeclaredColumn | None, value: object, *, is_known: bool, is_key: bool
    ) -> DebeziumValueFormat:
        """Return the form of the column's values. `is_known`: the type is the catalog's, with its parameters;
        `is_key`: the column belongs to its table's key.
        """
        ...

    def doubts(
        self, column: Column, form: DebeziumValueFormat, declared: DeclaredColumn | None
    ) -> Iterator[AmbiguousValue]:
        """Yield the column's ambiguous wire values."""
        ...

    def null_value(self, column: Column, declared: DeclaredColumn | None) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value that means NULL besides NULL itself, ABSENT if none does."""
        ...

    def inferred_type(self, value: object) -> ColumnType | None:
        """Return the type of a column known only by an object or an array; None if no type matches."""
        ...

    def declares_types(self, block: bytes) -> bool:
        """Return whether a schema block has the catalog's types."""
        ...


def plain_column_names(names: Sequence[str]) -> Mapping[str, str]:
    """Return the names unchanged."""
    return {name: name for name in names}
