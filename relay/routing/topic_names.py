"""Names of target topics: templates with `{topic}` (the source's), `{database}` and `{table}`.

Kafka allows 1 to 249 letters, digits, dots, underscores and hyphens. In a MySQL name, every other character
and the dot become `_x0020_`, with the character's code in hexadecimal, as in SQL/XML (ISO/IEC 9075-14); so
does an underscore that would look like the beginning of such an escape. Different names therefore stay
different, without any state or comparison.

Only names without a dot between them may still collide: `{database}_{table}` yields `a_b_c` for `a`.`b_c` and
for `a_b`.`c`. Such a template is ambiguous, and `conflicting_tables` returns the tables with the same topic
name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from relay.model.errors import UnusableTopicName
from relay.model.events import TableId
from relay.model.limits import MYSQL_NAME
from relay.text.redaction import HIDDEN, printable, quoted

TOPIC, DATABASE, TABLE = "topic", "database", "table"
FIELDS: Final = (TOPIC, DATABASE, TABLE)
LONGEST_NAME: Final = 249
_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_FIELD: Final = re.compile(r"\{(topic|database|table)\}")
#: Escaped characters in a MySQL name: those that Kafka refuses, the dot, and the underscore at the beginning
#: of an apparent escape.
_ESCAPED: Final = re.compile(r"[^A-Za-z0-9_-]|_(?=x[0-9a-f]{4,6}(?:[^A-Za-z0-9-]|$))")
_ESCAPE: Final = re.compile(r"_x([0-9a-f]{4,6})_")

#: A piece of a template: text, and the field after it ("" for none).
_Piece = tuple[str, str]


def is_topic_name(name: str) -> bool:
    """Return whether this is a valid topic name in Kafka."""
    return _LEGAL.fullmatch(name) is not None and name not in {".", ".."}


def escaped(name: str) -> str:
    """Return a database's or table's name in its form for topic names."""
    return _ESCAPED.sub(lambda found: f"_x{ord(found[0]):04x}_", name)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(min(int(found[1], 16), 0x10FFFF)), text)


class TopicTemplate(msgspec.Struct, frozen=True):
    """A parsed template, created by `parse`. `text`: the original text."""

    text: str
    pieces: tuple[_Piece, ...]

    @classmethod
    def parse(cls, text: str) -> TopicTemplate:
        """Parse a template. Raises ValueError with the reason."""
        *parts, end = _FIELD.split(text)
        literals, named = [*parts[::2], end], parts[1::2]
        if any("{" in literal or "}" in literal for literal in literals):
            known = ", ".join(f"{{{field}}}" for field in FIELDS)
            raise ValueError(f"{quoted(text)} has an unknown placeholder; known: {known}")
        found = cls(text, tuple(zip(literals, [*named, ""], strict=True)))
        # One letter per field yields the shortest possible name.
        if not is_topic_name(found._rendered(dict.fromkeys(FIELDS, "x"))):
            raise ValueError(f"{quoted(text)} does not make a topic name")
        return found

    @property
    def fields(self) -> frozenset[str]:
        """The placeholders of the template."""
        return frozenset(field for _, field in self.pieces if field)

    @property
    def is_by_table(self) -> bool:
        """Whether the topic depends on the event's table or database, not only on its source topic."""
        return bool(self.fields & {DATABASE, TABLE})

    @property
    def is_ambiguous(self) -> bool:
        """Whether two tables may have the same topic although the template's fields differ for them."""
        between = [literal for literal, field in self.pieces if field][1:]
        return self.is_by_table and any("." not in literal for literal in between)

    def may_be_shared(self, topics: Sequence[str]) -> bool:
        """Return whether two tables of these source topics may have the same topic; see `is_ambiguous`."""
        if not self.is_ambiguous:
            return False
        if any(TopicTemplate.parse(self.of_topic(topic)).is_ambiguous for topic in topics):
            return True
        # `t_u` and a table `v`, `t` and a table `u_v`.
        is_beside = any(
            TOPIC in {first, second} and "." not in between
            for (_, first), (between, second) in pairwise(self.pieces)
            if second
        )
        pairs = ((one, other) for one in topics for other in topics if one != other)
        return is_beside and any(one.startswith(other) or one.endswith(other) for one, other in pairs)

    def with_dots(self) -> str:
        """Return a similar template without collisions between tables."""
        begin, *rest = self.pieces
        dotted = [(literal if "." in literal or not field else ".", field) for literal, field in rest]
        return "".join([literal + (f"{{{field}}}" if field else "") for literal, field in (begin, *dotted)])

    def of_topic(self, topic: str) -> str:
        """Return the topic's name for a template without placeholders other than `{topic}`."""
        return self.text.replace("{topic}", topic)

    def name(self, topic: str, table: TableId) -> str:
        """Return the target topic of a table. Raises UnusableTopicName if it is not valid in Kafka."""
        values = {TOPIC: topic, DATABASE: escaped(table.database), TABLE: escaped(table.table)}
        found = self._rendered(values)
        if not is_topic_name(found):
            why = f"has {len(found)} characters, but Kafka accepts {LONGEST_NAME}"
            if len(found) <= LONGEST_NAME:
                why = f"would be {found!r}, which Kafka does not accept"
            raise unusable(table, why)
        return found

    def pattern(self, topics: Iterable[str]) -> re.Pattern[str]:
        """Return a pattern for all topic names of these source topics; its groups are the fields."""
        return re.compile(self.expression("|".join(map(re.escape, topics))))

    def expression(self, topics: str) -> str:
        """Return an expression for all topic names of the source topics that another expression matches."""
        forms = dict.fromkeys((DATABASE, TABLE), "[A-Za-z0-9_-]+")
        forms[TOPIC] = topics
        text, begun = "", set[str]()
        for literal, field in self.pieces:
            text += re.escape(literal)
            if field:
                text += f"(?P={field})" if field in begun else f"(?P<{field}>{forms[field]})"
                begun.add(field)
        return text

    def names_in(self, name: str, topics: Iterable[str]) -> tuple[str | None, str | None] | None:
        """Return the database and table in a topic name (None for one that is not in it); None if the
        template does not yield this name. With an ambiguous template, other tables may have this name, too.
        """
        found = self.pattern(topics).fullmatch(name)
        if found is None:
            return None
        texts = found.groupdict()
        database, table = (texts.get(field) for field in (DATABASE, TABLE))
        return database and _unescaped(database), table and _unescaped(table)

    def named(self, topic: str, table: TableId) -> tuple[str, ...]:
        """Return the values of the template's fields: tables that differ in them must not share a topic."""
        values = {TOPIC: topic, DATABASE: table.database, TABLE: table.table}
        return tuple(values[field] for field in FIELDS if field in self.fields)

    def conflicting_tables(self, topic: str, table: TableId) -> Iterator[TableId]:
        """Find the other tables of the same source topic that would have the same target topic."""
        name = self.name(topic, table)
        text = "".join(
            literal + (topic if field == TOPIC else f"\0{field}\0" if field else "")
            for literal, field in self.pieces
        )
        begin, *rest = text.split("\0")
        if len(rest) != _PARTS_OF_TWO_FIELDS or {rest[0], rest[2]} != {DATABASE, TABLE}:
            return
        first, between, end = rest[0], rest[1], rest[3]
        core = name[len(begin) : len(name) - len(end)]
        for at in range(len(core) + 1):
            if core.startswith(between, at):
                left, right = _unescaped(core[:at]), _unescaped(core[at + len(between) :])
                found = TableId(left, right) if first == DATABASE else TableId(right, left)
                if found != table and self.name(topic, found) == name:
                    yield found

    def _rendered(self, values: dict[str, str]) -> str:
        return "".join([literal + values[field] if field else literal for literal, field in self.pieces])


def unusable(table: TableId, why: str) -> UnusableTopicName:
    """Return the error for a table that cannot have its configured topic."""
    cure = "change the template or, in a configuration, add a rule for its table"
    shown = ".".join(map(_shown, (table.database, table.table)))
    return UnusableTopicName("kafka", "topic", f"that of table {printable(shown)} {why}; {cure}")


def _shown(name: str) -> str:
    """Return a database's or table's name, or hide a text that is too long to be one: it may be a value."""
    return name if len(name) <= MYSQL_NAME else HIDDEN


#: Parts of a text with two fields, split before and after each.
_PARTS_OF_TWO_FIELDS: Final = 4
