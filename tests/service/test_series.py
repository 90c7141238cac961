"""Metrics have the label values that can happen with a configuration, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_support import MINIMAL, load
from prometheus_client.parser import text_string_to_metric_families as parse_text

from relay.codecs import PROTOCOLS, codec_named
from relay.codecs.given_options import parse_options
from relay.codecs.losses import INFORMATIONAL, Loss, expected_losses
from relay.service.observe.about import About, InitialLabels
from relay.service.observe.metrics import exposition, registry_of
from relay.service.observe.status import Status

RECOVERED = {
    ("poll", "service.broker-unavailable"),
    ("produce", "service.broker-unavailable"),
    ("produce", "service.delivery-failed"),
    ("commit", "service.delivery-failed"),
}
DECODE = {"decode.malformed", "decode.unsupported", "decode.limit-exceeded", "decode.out-of-memory"}


def series(tmp_path: Path, text: str) -> InitialLabels:
    return InitialLabels.of(load(tmp_path, text))


def test_a_relay_that_stops_at_every_record_exports_only_what_it_recovers_from(tmp_path: Path) -> None:
    found = series(tmp_path, MINIMAL)
    assert set(found.errors) == RECOVERED
    assert (found.dead_letters, found.skipped) == ((), ())


def test_codes_are_those_of_the_policies_that_go_on(tmp_path: Path) -> None:
    text = MINIMAL + '[errors]\ndecode = "dead-letter"\ntoo_large = "skip"\ndead_letter_topic = "dead"\n'
    found = series(tmp_path, text)
    assert set(found.dead_letters) == DECODE
    assert set(found.skipped) == {"service.record-too-large"}
    assert set(found.errors) == RECOVERED | {("translate", code) for code in (*DECODE, *found.skipped)}


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"ticdc-canal-json"', '"ticdc-simple-json"', "decode.definition-missing"),
        (
            "[target]",
            '[source.schema_registry]\nurls = ["http://r:8081"]\n[target]',
            "service.schema-missing",
        ),
        ("{topic}.canal", "{database}.{table}", "encode.topic-name"),
        ('to = "canal-json"', 'to = "ticdc-canal-json"', "encode.too-large"),
    ],
)
def test_codes_that_a_route_alone_can_have(tmp_path: Path, old: str, new: str, code: str) -> None:
    text = MINIMAL + '[errors]\ndecode = "skip"\nencode = "skip"\ntoo_large = "skip"\n'
    changed = text.replace(old, new, 1)
    if code == "service.schema-missing":
        changed = changed.replace("ticdc-canal-json", "debezium-avro")
    assert code not in series(tmp_path, text).skipped
    assert code in series(tmp_path, changed).skipped


def test_no_series_of_errors_is_exported_that_cannot_happen(tmp_path: Path) -> None:
    text = exposition(registry_of(Status(About.of(load(tmp_path, MINIMAL)))), "")[0].decode()
    found = {family.name: family.samples for family in parse_text(text)}
    assert len(found["relay_errors"]) == len(RECOVERED)
    assert found["relay_dead_letters"] == found["relay_skipped_records"] == []


def test_the_known_losses_of_the_flagship_are_expected(tmp_path: Path) -> None:
    expected = series(tmp_path, MINIMAL).expected_losses
    assert {Loss.COMMIT_TS, Loss.WATERMARK} <= expected
    assert Loss.GTID not in expected
    assert not {Loss.DECIMAL_DIGITS, Loss.DELETE, Loss.ZERO_DATE, Loss.COLUMNS_ABSENT} & expected


def test_watermarks_that_are_left_out_on_request_are_expected_to_be_lost(tmp_path: Path) -> None:
    kept = MINIMAL.replace('to = "canal-json"', 'to = "ticdc-open-protocol"')
    assert Loss.WATERMARK not in series(tmp_path, kept).expected_losses
    text = kept.replace('topic = "{topic}.canal"', 'topic = "{topic}.canal"\nwatermarks = "drop"')
    assert Loss.WATERMARK in series(tmp_path, text).expected_losses


def test_what_rows_lose_is_expected_of_no_route() -> None:
    of_rows = {
        *(Loss.DELETE, Loss.DECIMAL_DIGITS, Loss.ZERO_DATE, Loss.YEAR_BELOW_100, Loss.TIME_RANGE),
        *(Loss.NULL_REPLACED_BY_DEFAULT, Loss.INVALID_TEXT, Loss.BEFORE_MISSING, Loss.UNKNOWN_FIELDS),
    }
    for source in PROTOCOLS.values():
        for target in PROTOCOLS.values():
            output = target.output(parse_options(target, {}, "to.option"))
            found = expected_losses(source.decodes, output)
            assert not found & of_rows
            assert not found & INFORMATIONAL


def test_what_the_source_does_not_say_is_expected_to_be_made_up() -> None:
    canal, ticdc = codec_named("canal-json", "from").decodes, codec_named("ticdc-canal-json", "from").decodes
    assert Loss.COMMIT_TS_SYNTHETIC in expected_losses(canal, ticdc)
    assert Loss.COMMIT_TS_SYNTHETIC not in expected_losses(ticdc, ticdc)
