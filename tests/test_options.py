"""Options of the codecs: on which side they may stand, and which of them belong together."""

from __future__ import annotations

import msgspec
import pytest
from support import CANAL, OPEN, TICDC

from relay import ConfigError, Translator
from relay.codecs import BUILT_IN
from relay.codecs.codec import side_of

DEBEZIUM, CKAFKA, NATIVE = "ticdc-debezium", "ckafka-json", "debezium-json"
#: Of protocols whose keys are not part of their messages.
KEYED = {"key": ("primary-key", "target"), "tombstones": ("false", "target")}
#: Of every protocol.
COMMON = {"strict": ("true", "target"), "ddl": ("drop", "target"), "watermarks": ("drop", "target")}
#: The options that mean nothing on the other side, beside those.
CONNECTOR = {
    "bit": "number",
    "enum-schema": "string",
    "heartbeats": "drop",
    "include.schema.changes": "false",
    "include.schema.comments": "true",
    "key-change-headers": "false",
    "provide.transaction.metadata": "true",
    "schema-columns": "optional",
    "schema.name.adjustment.mode": "avro",
    "skipped.operations": "none",
    "temporal": "text",
    "time": "text",
    "tombstones.on.delete": "false",
    "vector": "text",
    "wide-decimals": "text",
    "zero-dates": "null",
}
ONE_SIDED = {
    TICDC: {"zero-dates": ("null", "target"), **KEYED},
    CANAL: {
        "zero-dates": ("null", "target"),
        **KEYED,
        "max-batch-size": ("2", "target"),
        "hex-binary": ("true", "source"),
        "table": ("d.t", "source"),
    },
    CKAFKA: {
        "zero-dates": ("null", "target"),
        **KEYED,
        "value-style": ("mysql", "source"),
        "ddl-time-unit": ("ms", "target"),
    },
    OPEN: {},
    DEBEZIUM: {**KEYED, "cluster-id": ("prod", "target"), "replace.null.with.default": ("false", "target")},
    NATIVE: {
        "timezone": ("Asia/Shanghai", "source"),
        **{
            name: (value, "target")
            for name, value in {**CONNECTOR, "replace.null.with.default": "false"}.items()
        },
    },
    "debezium-avro": {
        "timezone": ("Asia/Shanghai", "source"),
        **{
            name: (value, "target")
            for name, value in {
                **CONNECTOR,
                "schema.name.adjustment.mode": "none",
                "ignore.default.for.nullables": "true",
                "key.subject.name.strategy": "RecordNameStrategy",
                "value.subject.name.strategy": "RecordNameStrategy",
                "schema-id": "header",
            }.items()
        },
    },
    "ticdc-simple-json": {"simple-include-start-ts": ("true", "target")},
    "ticdc-simple-avro": {},
    "ticdc-avro": {"keyspace": ("prod", "target"), "schema-id": ("header", "target")},
    "ticdc-debezium-avro": {
        "schema-id": ("header", "target"),
        "cluster-id": ("prod", "target"),
        "replace.null.with.default": ("false", "target"),
    },
    "canal-protobuf": {
        "zero-dates": ("null", "target"),
        **KEYED,
        "max-batch-size": ("2", "target"),
        "canal.instance.filter.transaction.entry": ("true", "target"),
    },
    "maxwell-json": {
        **KEYED,
        "output_ddl": ("true", "target"),
        "output_commit_info": ("false", "target"),
        "output_xoffset": ("true", "target"),
        "output_binlog_position": ("true", "target"),
        "output_gtid_position": ("true", "target"),
        "output_server_id": ("true", "target"),
        "output_thread_id": ("true", "target"),
        "output_schema_id": ("true", "target"),
        "output_push_timestamp": ("true", "target"),
        "output_row_query": ("true", "target"),
        "row_query_max_length": ("10", "target"),
        "output_primary_keys": ("true", "target"),
        "output_primary_key_columns": ("true", "target"),
        "output_null_zerodates": ("true", "target"),
        "kafka_key_format": ("array", "target"),
        "ddl_kafka_topic": ("ddl", "source"),
    },
}
CASES = [
    (protocol, name, value, side)
    for protocol, options in ONE_SIDED.items()
    for name, (value, side) in (options | COMMON).items()
]


def problems(source: str, target: str, reading: dict[str, str], writing: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        Translator(source, target, reading, writing)
    return [str(problem) for problem in raised.value.problems]


def test_every_protocol_is_here() -> None:
    found = {
        codec.name: {
            field.encode_name for field in msgspec.structs.fields(codec.options) if side_of(field.type)
        }
        for codec in BUILT_IN.values()
        if codec.is_readable and codec.is_writable
    }
    expected = {protocol: {*COMMON, "missing-before", *options} for protocol, options in ONE_SIDED.items()}
    # An UPDATE is the new row there, whether the old one is known or not.
    expected["ticdc-avro"].remove("missing-before")
    assert found == expected


@pytest.mark.parametrize(("protocol", "name", "value", "side"), CASES)
def test_an_option_of_one_side_is_refused_on_the_other(
    protocol: str, name: str, value: str, side: str
) -> None:
    given = {name: value}
    if side == "target":
        Translator(CANAL, protocol, None, given)
        (problem,) = problems(protocol, CANAL, given, {})
        assert problem.startswith(
            f"from.option.{name}: applies to the target side and has no effect on the source side"
        )
    else:
        Translator(protocol, CANAL, given)
        (problem,) = problems(CANAL, protocol, {}, given)
        assert problem.startswith(
            f"to.option.{name}: applies to the source side and has no effect on the target side"
        )


@pytest.mark.parametrize(
    ("protocol", "given"),
    [
        (TICDC, {"enable-tidb-extension": "true", "content-compatible": "true", "output-row-key": "true"}),
        (
            TICDC,
            {
                "output-row-key": "true",
                "large-message-handle-option": "handle-key-only",
                "claim-check-raw-value": "true",
            },
        ),
        (OPEN, {"max-batch-size": "16", "output-old-value": "false", "only-output-updated-columns": "true"}),
        (
            DEBEZIUM,
            {
                "debezium-disable-schema": "true",
                "debezium-include-start-ts": "true",
                "timezone": "Asia/Shanghai",
            },
        ),
    ],
)
def test_a_source_takes_what_its_producer_was_set_to(protocol: str, given: dict[str, str]) -> None:
    assert Translator(protocol, CANAL, given).route.source.name == protocol


def test_the_row_key_needs_the_member_that_holds_it() -> None:
    (problem,) = problems(TICDC, TICDC, {}, {"output-row-key": "true"})
    assert (
        problem == "to.option.enable-tidb-extension: output-row-key=true writes into `_tidb` (set it to true)"
    )
    assert (
        Translator(
            TICDC, TICDC, None, {"output-row-key": "true", "enable-tidb-extension": "true"}
        ).route.target.name
        == TICDC
    )


@pytest.mark.parametrize(
    ("target", "name", "choices"),
    [
        ("canal-json", "ddl", "keep, drop"),
        ("debezium-json", "decimal.handling.mode", "precise, double, string"),
        ("debezium-json", "key.converter.schemas.enable", "true, false"),
    ],
)
def test_an_invalid_choice_is_reported_with_the_choices(target: str, name: str, choices: str) -> None:
    with pytest.raises(ConfigError) as error:
        Translator("canal-json", target, None, {name: "bothe"})
    assert str(error.value) == f"to.option.{name}: 'bothe' does not fit (choices: {choices})"
