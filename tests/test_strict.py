"""The target option `strict`: all losses, some, or all but some."""

from __future__ import annotations

import pytest
from engine_support import ENGINES
from open_support import cell, ddl, framed, row
from support import OPEN, TICDC, captured
from templates_support import Both

from relay import ConfigError, ConsumerRecord, Loss, NotRepresentable, Translator
from relay.codecs.losses import LOSSES, refused_losses, strict_without
from relay.config.keys import RouteConfig
from relay.templates.engine import Engine

FLAGSHIP = captured("ticdc/canal-json.tidb-extension/09_dml")


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("false", set()),
        ("", set()),
        ("true", set(LOSSES)),
        ("all", set(LOSSES)),
        ("all,-commit-ts", LOSSES - {Loss.COMMIT_TS}),
        ("-commit-ts, all, -watermark", LOSSES - {Loss.COMMIT_TS, Loss.WATERMARK}),
        ("decimal-digits, GTID", {Loss.DECIMAL_DIGITS, Loss.GTID}),
        ("all,schema-inferred", LOSSES | {Loss.SCHEMA_INFERRED}),
        ('["all", "-commit-ts"]', LOSSES - {Loss.COMMIT_TS}),
    ],
)
def test_what_is_refused(text: str, refused: set[Loss]) -> None:
    assert refused_losses(text) == refused


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("decimals", "unknown kind of loss 'decimals' (did you mean decimal-digits"),
        ("all,-comit-ts", "unknown kind of loss 'comit-ts' (did you mean commit-ts"),
        ("xyzzy", "unknown kind of loss 'xyzzy' (`relay formats --from … --to …` names those of a route"),
        ("-commit-ts", "-commit-ts excludes a kind, but no kinds are refused (write all,-commit-ts)"),
        ("false,gtid", "false cannot be combined with other kinds (leave it out)"),
        ("all,gtid,-gtid", "gtid is both included and excluded (keep one of the two)"),
        ("tables-filtered", "tables-filtered is left out on request, which is never refused"),
    ],
)
def test_what_is_wrong_is_said(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Translator(TICDC, "canal-json", {}, {"strict": text})
    assert [str(each).startswith(f"to.option.strict: {problem}") for each in raised.value.problems] == [True]


def test_strict_is_an_option_of_the_target() -> None:
    with pytest.raises(ConfigError, match="applies to the target side"):
        Translator(TICDC, "canal-json", {"strict": "all"})


def test_the_flagship_passes_without_its_commit_ts() -> None:
    translator = Translator(TICDC, "canal-json", {}, {"strict": "all,-commit-ts,-watermark"})
    for record in FLAGSHIP:
        translator.translate(record)
    assert translator.losses == {Loss.COMMIT_TS: 60, Loss.WATERMARK: 8}


@pytest.mark.parametrize("text", ["true", "all", "commit-ts", "watermark", "all,-watermark"])
def test_a_refused_record_leaves_nothing(text: str) -> None:
    translator, refused = Translator(TICDC, "canal-json", {}, {"strict": text}), refused_losses(text)
    expected = Translator(TICDC, "canal-json")
    for record in FLAGSHIP:
        before, counted = translator.state, expected.losses
        plain = expected.translate(record)
        lost = set(expected.losses - counted) & refused
        if not lost:
            assert translator.translate(record) == plain
            continue
        with pytest.raises(NotRepresentable) as raised:
            translator.translate(record)
        assert translator.state == before
        said = str(raised.value)
        assert f"would lose: {', '.join(sorted(lost))};" in said
        accepting = said.partition("option strict=")[2].partition(" ")[0]
        assert refused_losses(accepting) == refused - lost
        translator.learn(record)


def test_what_is_only_counted_can_be_refused_by_name() -> None:
    inferred = Translator(TICDC, "canal-json", {}, {"strict": "schema-inferred"})
    row = next(record for record in FLAGSHIP if b'"INSERT"' in (record.value or b""))
    with pytest.raises(NotRepresentable, match="the route would lose: schema-inferred"):
        inferred.translate(row)


@pytest.mark.parametrize("engine", ENGINES)
def test_templates_refuse_the_same_kinds(engine: type[Engine]) -> None:
    """A value of a refused kind fits no template; one of another kind does, and is counted."""
    options = {"strict": "zero-date", "enable-tidb-extension": "true"}
    both = Both(OPEN, target="ticdc-debezium", target_options=options, engine=engine)
    table = ddl("CREATE TABLE d.t (id INT PRIMARY KEY, day DATE, price DECIMAL(30,18))")

    def message(day: str, price: str) -> ConsumerRecord:
        cells = {"id": cell(3, 1, 11, h=True), "day": cell(10, day, 65), "price": cell(246, price, 65)}
        return framed(row({"u": cells}))

    both.learn(framed(table), message("2024-01-01", "1"), message("2024-01-01", "1"))
    assert both.fits(message("2024-01-02", "2"))
    assert both.fits(message("2024-01-02", "1.234567890123456789"))
    assert both.templated.losses[Loss.DECIMAL_DIGITS] == 1
    assert not both.fits(message("0000-00-00", "1"))


def test_a_list_in_the_configuration() -> None:
    table = {"from": TICDC, "to": "canal-json", "to_options": {"strict": ["all", "-commit-ts"]}}
    assert RouteConfig.model_validate(table).to_options == {"strict": "all,-commit-ts"}


@pytest.mark.parametrize(
    ("refused", "accepted", "text"),
    [
        ({Loss.GTID, Loss.COMMIT_TS}, {Loss.GTID}, "commit-ts"),
        ({Loss.GTID}, {Loss.GTID}, "false"),
        (set(LOSSES), {Loss.GTID}, "all,-gtid"),
        (set(LOSSES) | {Loss.SCHEMA_INFERRED}, {Loss.GTID}, "all,-gtid,schema-inferred"),
    ],
)
def test_the_shorter_text_names_what_is_still_refused(
    refused: set[Loss], accepted: set[Loss], text: str
) -> None:
    assert strict_without(frozenset(refused), frozenset(accepted)) == text
    assert refused_losses(text) == refused - accepted


def test_a_text_of_half_of_the_kinds_means_the_same() -> None:
    kinds = sorted(LOSSES)
    for count in range(len(kinds)):
        refused = frozenset(kinds[: count + 1])
        accepted = frozenset(kinds[:1])
        assert refused_losses(strict_without(refused, accepted)) == refused - accepted
