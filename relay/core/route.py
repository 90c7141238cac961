"""A route: source and target protocol, their options, and the selection of events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from relay.catalog.redaction import Redaction
from relay.codecs import LargeMessageOptions, codec_named
from relay.codecs.codec import SIDES, Codec, Joining, Options
from relay.codecs.given_options import parse_options
from relay.codecs.losses import Keys, Loss, expected_losses
from relay.codecs.row_keys import key_rule_problem, keys_of
from relay.core.selection import Selection
from relay.model.errors import ConfigError, Problem
from relay.routing import Router, TopicRule
from relay.rules.columns import ColumnRule, ColumnRules, ParsedColumnRule, parse_rules
from relay.rules.rows import ParsedRowRule, RowRule, RowRules, parse_row_rules
from relay.rules.tables import ParsedTableRule, TableNames, TableRule
from relay.rules.tables import parse_rules as parse_table_rules

_Rule = TypeVar("_Rule")


class RouteRules(NamedTuple):
    """The rules of a route, as they are given. `hash_key`: the secret of column rules that hash values."""

    columns: Sequence[ColumnRule] = ()
    hash_key: bytes = b""
    rows: Sequence[RowRule] = ()
    tables: Sequence[TableRule] = ()

    def parsed(self, problems: list[Problem]) -> _ParsedRules:
        """Parse the rules; append errors to `problems`, and leave out rules with errors."""

        def parse(rules: Callable[[], tuple[_Rule, ...]]) -> tuple[_Rule, ...]:
            try:
                return rules()
            except ConfigError as error:
                problems.extend(error.problems)
                return ()

        return _ParsedRules(
            parse(lambda: parse_rules(self.columns, has_hash_key=bool(self.hash_key))),
            parse(lambda: parse_row_rules(self.rows)),
            parse(lambda: parse_table_rules(self.tables)),
            self.hash_key,
        )


class _ParsedRules(NamedTuple):
    columns: tuple[ParsedColumnRule, ...]
    rows: tuple[ParsedRowRule, ...]
    tables: tuple[ParsedTableRule, ...]
    hash_key: bytes

    def for_columns(self, target: Codec) -> ColumnRules | None:
        """Return the column rules for a target; None without any."""
        if not self.columns:
            return None
        return ColumnRules(
            self.columns, self.hash_key, target.name, needs_definitions=target.rows_need_definitions
        )

    def for_rows(self, target: Codec) -> RowRules | None:
        """Return the row rules for a target; None without any."""
        return RowRules(self.rows, target.name) if self.rows else None

    def for_tables(self, target: Codec, selection: Selection) -> TableNames | None:
        """Return the names of selected tables in a target; None if all keep theirs."""
        if not self.tables:
            return None
        return TableNames(
            self.tables,
            target.name,
            needs_definitions=target.rows_need_definitions,
            selects=selection.has_table,
        )


class Route(NamedTuple):
    """The source and target protocols, with the parsed options of both sides.

    `selection`: selects the events to translate (None: all), including the effect of target options.
    `column_rules`: drop, replace or rename columns (None: there are none). `row_rules`: select rows (None:
    there are none). `table_names`: renames tables (None: the target has the source's names).
    """

    source: Codec
    target: Codec
    source_options: Options
    target_options: Options
    selection: Selection | None = None
    column_rules: ColumnRules | None = None
    row_rules: RowRules | None = None
    table_names: TableNames | None = None

    @classmethod
    def parse(
        cls,
        source: tuple[str, Mapping[str, str]],
        target: tuple[str, Mapping[str, str]],
        selection: Selection | None,
        rules: RouteRules,
    ) -> Route:
        """Parse the names and option texts of both sides, and the rules.

        Raises ConfigError with all problems.
        """
        problems: list[Problem] = []
        parsed = []
        for (name, given), path in ((source, "from"), (target, "to")):
            try:
                codec = codec_named(name, path)
                parsed.append((codec, parse_options(codec, given, f"{path}.option", SIDES[path])))
            except ConfigError as error:
                problems += error.problems
        if len(parsed) > 1:
            writing = parsed[1][1].writing_problems()
            problems += [problem._replace(path=f"to.option.{problem.path}") for problem in writing]
        parsed_rules = rules.parsed(problems)
        if problems:
            raise ConfigError(problems)
        (source_codec, reading), (target_codec, writing_options) = parsed
        selection = selection or Selection()
        return cls(
            source_codec,
            target_codec,
            reading,
            writing_options,
            _selected(selection, target_codec, writing_options),
            parsed_rules.for_columns(target_codec),
            parsed_rules.for_rows(target_codec),
            parsed_rules.for_tables(target_codec, selection),
        )

    @property
    def storages(self) -> dict[str, str]:
        """The configured claim-check storages by side (`from`, `to`); the URIs may contain secrets."""
        return {
            side: options.claim_check_storage_uri
            for side, options in (("from", self.source_options), ("to", self.target_options))
            if isinstance(options, LargeMessageOptions) and options.claim_check_storage_uri
        }

    @property
    def joining(self) -> Joining | None:
        """How messages of neighboring source records are joined (`relay.core.batching`), or None."""
        return self.target.joining(self.target_options)

    @property
    def has_row_keys(self) -> bool:
        """Whether the Kafka key of a row's message identifies the row."""
        return keys_of(self.target, self.target_options) is Keys.ROW

    @property
    def expected_losses(self) -> frozenset[str]:
        """The kinds of losses that follow from the two formats and the selection, not from rows."""
        losses = set(expected_losses(self.source.decodes, self.target.output(self.target_options)))
        if not self.passes_watermarks:
            losses.add(Loss.WATERMARK)
        return frozenset(map(str, losses))

    @property
    def hides_values(self) -> bool:
        """Whether values of some columns do not reach the target."""
        return self.column_rules is not None and self.column_rules.hides_values

    @property
    def redaction(self) -> Redaction | None:
        """What removes hidden values from stored statements; None if no values are hidden."""
        return None if self.column_rules is None else self.column_rules.redaction

    @property
    def passes_watermarks(self) -> bool:
        """Whether watermarks of the source become watermarks of the target."""
        is_carried = self.source.decodes.watermark and self.target.output(self.target_options).watermark
        return is_carried and (self.selection is None or self.selection.watermarks)

    @property
    def own_headers(self) -> frozenset[str]:
        """The headers that are part of a message of either side, and are not passed on."""
        return self.source.own_headers | self.target.own_headers

    def check_watermarks(self) -> None:
        """Raise ConfigError if the source has no watermarks, which `deduplicate` needs."""
        if not self.source.decodes.watermark:
            message = f"{self.source.name} has no watermarks, which this needs"
            hint = "leave it out; TiCDC's protocols have watermarks"
            raise ConfigError([Problem("deduplicate", message, hint)])

    def check_keys(self, router: Router, rules: Sequence[TopicRule]) -> None:
        """Raise ConfigError for keys that cannot partition rows, and for rules' keys that the target lacks.

        Rows cannot be partitioned by keys that do not identify rows.
        """
        if router.goes_by_key and not self.has_row_keys:
            raise ConfigError([_no_row_keys(self.target)])
        found = key_rule_problem(self.target, self.target_options)
        if found is not None:
            paths = [f"target.topics.{at}.key" for at, rule in enumerate(rules) if rule.key]
            if paths:
                raise ConfigError([Problem(path, *found) for path in paths])


#: Selections that include everything.
_EVERYTHING: Final = (Selection(), Selection(definitions=True))


def _selected(selection: Selection, target: Codec, options: Options) -> Selection | None:
    """Return the selection, reduced by the target's options; None if it includes everything."""
    found = selection._replace(
        watermarks=selection.watermarks and options.watermarks == "keep",
        ddl=selection.ddl and options.ddl == "keep",
        definitions=selection.ddl and target.rows_need_definitions,
    )
    return None if found in _EVERYTHING else found


def _no_row_keys(target: Codec) -> Problem:
    message = (
        f"key: the keys of {target.name} do not identify rows, so rows of one key would not stay together"
    )
    hint = "use index-value, or, where the target has that option, key=primary-key"
    return Problem("target.partition_by", message, hint)
