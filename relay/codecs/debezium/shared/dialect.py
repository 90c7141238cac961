"""What a producer of Debezium JSON says: how columns look in its rows, and which of a definition's it has.

Contract: a `Dialect` knows nothing of one row. It is asked when a layout is made
(`relay.codecs.debezium.shared.rows`), and its answers hold for every row of that layout.
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


class Form(NamedTuple):
    """How a column's values look: the kind of its JSON values, and how one becomes canonical (None: it is).

    `is_guess`: the value itself decides how it is read. `zone`: the zone of text without one; None for a
    column whose values have no zone, or always name it. `is_too_fine`: whether `read` leaves out digits of a
    second of a value; None if it never does.
    """

    kind: Any
    read: Read | None = None
    is_guess: bool = False
    zone: tzinfo | None = None
    is_too_fine: Callable[[Any], bool] | None = None


#: A value in a message that means two things, and how that is counted.
AmbiguousValue = tuple[Any, Loss]
#: The columns of an image that was parsed without a layout.
Object = dict[str, Any]


class Dialect(Protocol):
    """How one producer's columns look in rows.

    `declared` is what the message's schema block says of a column, None where it says nothing; `value` one of
    the message's values, the more telling one of two images.
    """

    #: Texts that stand for a value which the message does not have.
    unavailable: frozenset[str]
    #: Whether keys may have other columns than the table's key, and fields that are no columns.
    reads_keys: bool
    #: Whether rows have all columns of their schema block, unless the source lacks their values.
    has_whole_rows: bool
    #: Fields of keys that are never columns.
    added_key_fields: frozenset[str]

    def key_of(self, key: bytes | None) -> Key:
        """Parse a row's Kafka key."""
        ...

    def complete(self, images: Sequence[Object | None], key: Key, wanted: frozenset[str] | None) -> None:
        """Bring parsed images into the form that layouts have: add what only the key says, for example.

        `wanted`: the columns that a key of the table can have; None if nobody knows.
        """
        ...

    def has_values(self, column: Column) -> bool:
        """Whether rows have a column of the definition."""
        ...

    def known_columns(self, known: TableSchema, names: Sequence[str]) -> Mapping[str, Column]:
        """Return the definition's columns that rows have, by their name on the wire. `names`: a message's."""
        ...

    def column_names(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the columns' names for the names that a message has, where no definition is known."""
        ...

    def fits(self, column: Column, declared: DeclaredColumn | None, value: object) -> bool:
        """Whether neither the block nor the value contradicts the catalog's column."""
        ...

    def declared_type(self, declared: DeclaredColumn, value: object) -> ColumnType | None:
        """Return the type that the block declares, None if that does not go with the value."""
        ...

    def form(
        self, column: Column, declared: DeclaredColumn | None, value: object, *, is_known: bool, is_key: bool
    ) -> Form:
        """Return how the column's values look. `is_known`: the type is the catalog's, with its parameters;
        `is_key`: the column is one of its table's key.
        """
        ...

    def doubts(self, column: Column, form: Form, declared: DeclaredColumn | None) -> Iterator[AmbiguousValue]:
        """Give the column's wire values that mean two things."""
        ...

    def null_value(self, column: Column, declared: DeclaredColumn | None) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value that stands for NULL besides NULL itself, ABSENT if none does."""
        ...

    def guessed_type(self, value: object) -> ColumnType | None:
        """Return the type of a column known only by an object or an array; None if no type has such."""
        ...

    def tells_types(self, block: bytes) -> bool:
        """Whether a schema block tells types as the catalog has them."""
        ...


def plain_column_names(names: Sequence[str]) -> Mapping[str, str]:
    """Return the names as they are."""
    return {name: name for name in names}
