"""Writing canonical values as JSON for loaders of tables, and counting the losses.

A `FlatValueWriter` returns, per column, a function from the canonical value to a value that msgspec prints;
None if both are the same. Every value is exact: whole numbers have all digits, decimals their scale, binary
values are base64 with padding or hex, and text stays unchanged. For an ambiguous value the function appends
to `lost`, which the encoder empties before every row. `shortcuts` are for sources whose wire has the
canonical text already.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any, Final

import msgspec

from relay.codecs.losses import Loss
from relay.codecs.shared.conversions import Convert, Read, Write
from relay.codecs.shared.lenient_json import json_document
from relay.model.events import Column
from relay.mysql import numbers, temporal
from relay.mysql.conversion_names import kernel_name, lossy_conversion, named_after
from relay.mysql.members import label_writer
from relay.mysql.types import BINARIES

#: Types with values that are no dates of the calendar.
_DATES: Final = ("date", "datetime", "timestamp")
_ENUM_INDEX: Final = Loss.ENUM_INDEX
_ZERO_DATE: Final = Loss.ZERO_DATE
#: Number of characters of a DATE, and of a DATETIME with microseconds.
_SHORTEST, _LONGEST = len("0000-00-00"), len("0000-00-00 00:00:00.000000")


class Forms(msgspec.Struct, frozen=True):
    """Optional forms of values; the alternative is in parentheses.

    `text_decimals`: DECIMAL as text (a number with all its digits); `base64`: binary values (hex);
    `has_labels`: ENUM and SET (index, bit map); `nests_json`: JSON columns as documents (their text);
    `is_iso`: DATETIME and TIMESTAMP as ISO 8601, the latter with its offset (MySQL's text);
    `keeps_zero_dates`: dates that are not in the calendar (NULL). `zone`: of TIMESTAMP.
    """

    text_decimals: bool
    base64: bool
    has_labels: bool
    nests_json: bool
    is_iso: bool
    keeps_zero_dates: bool
    zone: tzinfo


class FlatValueWriter:
    """Writes values of one encoder's rows; `lost` holds their losses since it was last emptied."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self.lost: list[Loss] = []
        # Each is made once: `shortcuts` knows them by identity.
        self._writes = self._all_writes()
        self._null_dates: dict[str, Write] = {}
        if not forms.keeps_zero_dates:
            self._null_dates = {base: self._dated(self._writes.get(base)) for base in _DATES}
        self.shortcuts: Mapping[tuple[Read, Write | None], Convert] = {
            (numbers.read_decimal, numbers.decimal_text): _checked_decimal,
            (numbers.read_decimal, _decimal_number): _checked_decimal_number,
        }

    def of(self, column: Column) -> Write | None:
        """Return the writing function of this column's values; None if they are written unchanged. No date of
        a column that cannot be NULL becomes NULL.
        """
        base = column.type.base
        if base in self._null_dates and column.nullable is not False:
            return self._null_dates[base]
        if base in {"enum", "set"}:
            if not self._forms.has_labels:
                return None
            return label_writer(column.type, functools.partial(self.lost.append, _ENUM_INDEX))
        return self._writes.get(base)

    def _all_writes(self) -> dict[str, Write]:
        forms = self._forms
        found: dict[str, Write] = {"float": _finite, "double": _finite}
        found["decimal"] = numbers.decimal_text if forms.text_decimals else _decimal_number
        if not forms.base64:
            found |= dict.fromkeys(BINARIES, bytes.hex)
        if forms.nests_json:
            found["json"] = json_document
        if forms.is_iso:
            found["datetime"] = _iso
        if forms.is_iso or forms.zone is not UTC:
            found["timestamp"] = self._iso_timestamp if forms.is_iso else self._local_timestamp
        if forms.is_iso and forms.zone is UTC:
            found["timestamp"] = _iso_utc
        return found

    # ------------------------------------------------------------ dates

    def _dated(self, write: Write | None) -> Write:
        """Return the same function for dates that are in the calendar; others are NULL."""
        lost = self.lost

        @lossy_conversion(_ZERO_DATE, "no-date", b"null", _SHORTEST, _LONGEST)
        def written(text: str) -> Any:  # noqa: ANN401 - any value that msgspec prints
            if not temporal.is_date(text[:10]):
                lost.append(_ZERO_DATE)
                return None
            return text if write is None else write(text)

        return kernel_name("calendar")(written) if write is None else named_after(written, write, 1)

    def _local_timestamp(self, text: str) -> str:
        return temporal.timestamp_text(self._forms.zone, text, self._is_unmoved)

    def _iso_timestamp(self, text: str) -> str:
        """Return a TIMESTAMP with its offset. A text that is no moment has only `Z`."""
        zone = self._forms.zone
        try:
            local = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC).astimezone(zone)
        except ValueError:
            return _iso_utc(text)
        except OverflowError:
            self._is_unmoved()
            return _iso_utc(text)
        moved = local.isoformat(timespec="seconds")
        return f"{moved[:19]}{text[19:]}{moved[19:]}"

    def _is_unmoved(self) -> None:
        self.lost.append(_ZERO_DATE)


# ---------------------------------------------------------------- DECIMAL, FLOAT

#: A DECIMAL in the spelling of JSON and MySQL; ZEROFILL has zeros before the first digit.
_PLAIN_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,64})(?:\.[0-9]{1,30})?", re.ASCII).fullmatch


def _checked_decimal(text: str) -> str:
    return text if _PLAIN_DECIMAL(text) else numbers.decimal_text(numbers.read_decimal(text))


@kernel_name("decimal-number")
def _decimal_number(value: Decimal) -> msgspec.Raw:
    return msgspec.Raw(numbers.decimal_text(value).encode())


def _checked_decimal_number(text: str) -> msgspec.Raw:
    return msgspec.Raw(_checked_decimal(text).encode())


@kernel_name("finite")
def _finite(value: float) -> float:
    # NaN and infinity are the numbers whose distance to themselves is not 0; msgspec prints null for them.
    if value - value:
        raise ValueError("not a finite number, which JSON cannot hold")
    return value


# ---------------------------------------------------------------- DATETIME


@kernel_name("iso")
def _iso(text: str) -> str:
    return f"{text[:10]}T{text[11:]}"


@kernel_name("iso-z")
def _iso_utc(text: str) -> str:
    return f"{text[:10]}T{text[11:]}Z"
