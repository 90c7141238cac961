"""Traces: spans of rounds with links to producers, at a collector that runs beside the test."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from service.memory import PLAIN, A, Bench, Copy, until
from service.transport_support import MODES, both_modes, check_complete, numbered
from tracing_support import STATE, TRACE, collecting, traceparent, values

from relay.config.loading import load_config
from relay.io.kafka.ports import Undelivered
from relay.model.errors import ConfigError, Malformed
from relay.model.records import ConsumerRecord
from relay.service.loop.offset_tracker import RecordRefused
from relay.service.observe.about import About
from relay.service.observe.tracing import MOST_LINKS, tracing

ABOUT = About.of(PLAIN)
CANARY = b"canary-9471"
OK, ERROR = 0, 2


def record(*headers: tuple[str, bytes | None], topic: str = "in", partition: int = 0) -> ConsumerRecord:
    return ConsumerRecord(topic, partition, 0, 0, b"key-" + CANARY, CANARY, headers)


def names(spans: Any) -> list[str]:
    return [span.name for span in spans]


# ---------------------------------------------------------------- one round


async def test_a_span_follows_the_conventions_of_messaging(
    list_log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=secret",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    async with collecting(monkeypatch, **environment) as collector:
        async with tracing(ABOUT, list_log) as tracer:
            span = tracer.begin()
            span.take([record(traceparent(1), ("tracestate", STATE.encode())), record(traceparent(2))])
            span.translated(5, "")
            span.delivered()
        (headers, _), (found,) = collector.requests[0], collector.spans
    assert (headers["Content-Type"], headers["api-key"]) == ("application/x-protobuf", "secret")
    assert collector.resource["service.name"] == "relay"
    assert collector.resource["deployment.environment.name"] == "test"
    assert (found.name, found.kind, found.status.code) == ("process in", found.SPAN_KIND_CONSUMER, OK)
    assert values(found.attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "g",
        "messaging.destination.name": "in",
        "messaging.destination.partition.id": "0",
        "messaging.batch.message_count": 2,
        "relay.source.protocol": "ticdc-canal-json",
        "relay.target.protocol": "canal-json",
        "relay.written.message_count": 5,
    }
    links = [(link.trace_id.hex(), link.span_id.hex(), values(link.attributes)) for link in found.links]
    assert links == [(TRACE, f"{1:016x}", {"w3c.tracestate": STATE}), (TRACE, f"{2:016x}", {})]
    assert not found.parent_span_id
    assert found.start_time_unix_nano <= found.events[0].time_unix_nano <= found.end_time_unix_nano
    assert [event.name for event in found.events] == ["relay.translated"]
    assert list_log.named("tracing.started")[0]["collector"] == collector.address


async def test_only_common_destinations_are_named(list_log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with collecting(monkeypatch) as collector, tracing(ABOUT, list_log) as tracer:
        for batches in ([("a", 0), ("a", 1)], [("a", 0), ("b", 0)], []):
            span = tracer.begin()
            for topic, partition in batches:
                span.take([record(topic=topic, partition=partition)])
            span.translated(1, "")
            span.delivered()
        await until(lambda: len(collector.spans) == 2)
        assert names(collector.spans) == ["process a", "process"]
        found = [values(span.attributes) for span in collector.spans]
    assert "messaging.destination.partition.id" not in found[0]
    assert "messaging.destination.name" not in found[1]


async def test_links_are_valid_distinct_and_bounded(list_log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = [
        record(),
        record(("traceparent", None)),
        record(("traceparent", b"00-nothing")),
        record(("traceparent", b" " * 1_000_000)),
        record(traceparent(7), traceparent(1), ("tracestate", b"," * 1_000_000)),
        record(traceparent(1)),
    ]
    many = [record(traceparent(span)) for span in range(2, MOST_LINKS + 4)]
    async with collecting(monkeypatch) as collector, tracing(ABOUT, list_log) as tracer:
        span = tracer.begin()
        span.take(odd)
        span.take(many)
        span.translated(1, "")
        span.delivered()
        await until(lambda: bool(collector.spans))
        (found,) = collector.spans
    # The last header of a name counts.
    assert [int(link.span_id.hex(), 16) for link in found.links] == list(range(1, MOST_LINKS + 1))
    assert values(found.attributes)["relay.links.left_out"] == 3


async def test_routes_that_hide_values_send_no_text_of_headers(
    list_log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with collecting(monkeypatch) as collector:
        async with tracing(ABOUT, list_log, hides_values=True) as tracer:
            span = tracer.begin()
            span.take([record(traceparent(1), ("tracestate", b"a=" + CANARY))])
            span.translated(1, "")
            span.delivered()
        assert len(collector.spans[0].links) == 1
        assert all(CANARY not in body for body in collector.bodies)


# ---------------------------------------------------------------- rounds of the loop


@pytest.mark.parametrize("transactional", [False, True])
async def test_a_round_that_is_not_delivered_is_an_error(
    list_log: Any, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    async with collecting(monkeypatch) as collector, tracing(ABOUT, list_log) as tracer:
        bench = Bench(list_log, A, length=6, transactional=transactional, tracer=tracer)
        refused = [Undelivered("no", retriable=True)]
        bench.target.refuse = lambda _: refused.pop() if refused else None
        await bench.run_to_the_end()
        bench.check_complete()
        await until(lambda: sum(_count(span) for span in collector.spans if span.status.code == OK) == 6)
        failed = [span for span in collector.spans if span.status.code == ERROR]
    assert {values(span.attributes)["error.type"] for span in failed} == {"service.delivery-failed"}


def _count(span: Any) -> int:
    return int(values(span.attributes)["messaging.batch.message_count"])


@pytest.mark.parametrize("refused", [0, 2])
async def test_a_refused_record_marks_its_round(
    list_log: Any, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    """Also if it is the first of its round."""
    copy = Copy()
    copy.refuse[refused] = Malformed("echo", "value", "is " + CANARY.decode())
    async with collecting(monkeypatch) as collector:
        async with tracing(ABOUT, list_log) as tracer:
            bench = Bench(list_log, A, length=6, copy=copy, tracer=tracer)
            with pytest.raises(RecordRefused):
                await bench.relay.run()
        (found,) = collector.spans
        assert (_count(found), found.status.code, found.status.message) == (refused + 1, ERROR, "")
        assert values(found.attributes)["error.type"] == "decode.malformed"
        assert values(found.attributes)["messaging.destination.name"] == A.topic
        assert all(CANARY not in body for body in collector.bodies)


# ---------------------------------------------------------------- collectors that fail


@pytest.mark.parametrize("status", [302, 404, 429])
async def test_a_failing_collector_is_logged_once_and_so_is_its_recovery(
    list_log: Any, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": "no header, secret"}
    async with collecting(monkeypatch, **environment) as collector:
        collector.status = status
        async with tracing(ABOUT, list_log) as tracer:

            async def trace(condition: Any) -> None:
                span = tracer.begin()
                span.take([record()])
                span.translated(1, "")
                span.delivered()
                await until(condition)

            for asked in (1, 2, 3):
                await trace(lambda asked=asked: collector.asked == asked)
            await until(lambda: bool(list_log.named("tracing.failing")))
            collector.status = 200
            await trace(lambda: bool(list_log.named("tracing.recovered")))
    (failing,), (recovered,) = list_log.named("tracing.failing"), list_log.named("tracing.recovered")
    assert (failing["collector"], failing["cause"]) == (collector.address, f"HTTP status {status}")
    assert recovered["lost"] == 3
    (ignored,) = list_log.named("tracing.setting")
    assert "Header format invalid" in ignored["message"]
    assert "secret" not in str(list_log.events)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "grpc",
            "OTEL_EXPORTER_OTLP_PROTOCOL: only http/protobuf is supported",
        ),
        ("OTEL_TRACES_EXPORTER", "none", "OTEL_TRACES_EXPORTER: only otlp is supported"),
        ("OTEL_SDK_DISABLED", "true", "OTEL_SDK_DISABLED is true: no spans are sent"),
    ],
)
async def test_variables_that_relay_does_not_follow_are_logged(
    list_log: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    async with collecting(monkeypatch, **{name: value}), tracing(ABOUT, list_log):
        pass
    assert [event["message"] for event in list_log.named("tracing.setting")] == [message]
    assert bool(list_log.named("tracing.started")) is (name != "OTEL_SDK_DISABLED")


@pytest.mark.parametrize(
    "endpoint",
    ["collector:4318", " ", "grpc://collector:4317", "http://me:sec/ret@host", "http://me:secret@[::1"],
)
def test_an_endpoint_that_is_no_url_is_a_problem_of_the_configuration(
    list_log: Any, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)

    async def start() -> None:
        async with tracing(ABOUT, list_log):
            pass

    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_ENDPOINT is not the URL") as caught:
        start().send(None)
    assert "sec" not in str(caught.value)


def test_settings_that_the_sdk_refuses_are_a_problem_of_the_configuration(
    list_log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "0")

    async def start() -> None:
        async with tracing(ABOUT, list_log):
            pass

    with pytest.raises(ConfigError, match=r"tracing\.enabled: .*max_queue_size"):
        start().send(None)


@pytest.mark.parametrize(
    ("environment", "least", "most"), [({}, 512, 576), ({"OTEL_BSP_MAX_QUEUE_SIZE": "700"}, 700, 700)]
)
async def test_few_spans_wait_for_a_collector(
    list_log: Any, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], least: int, most: int
) -> None:
    """512 wait and 64 are being sent, unless variables set other sizes."""
    async with collecting(monkeypatch, OTEL_BSP_SCHEDULE_DELAY="5000", **environment) as collector:
        collector.answers.clear()
        async with tracing(ABOUT, list_log, flush_seconds=30) as tracer:
            for _ in range(700):
                span = tracer.begin()
                span.take([record()])
                span.translated(1, "")
                span.delivered()
            collector.answers.set()
        assert least <= len(collector.spans) <= most


# ---------------------------------------------------------------- configuration


def test_missing_libraries_are_a_problem_of_the_configuration(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "relay.toml"
    file.write_text(
        '[route]\nfrom = "ticdc-canal-json"\nto = "canal-json"\n'
        '[source]\nbootstrap_servers = "b:1"\ntopics = ["in"]\ngroup_id = "g"\n'
        '[target]\ntopic = "out"\n[tracing]\nenabled = true\n'
    )
    assert load_config(file).tracing.enabled
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(
        ConfigError, match=r"tracing\.enabled: needs the libraries .*pip install '\.\[tracing\]'"
    ):
        load_config(file)


# ---------------------------------------------------------------- a real broker


@pytest.mark.kafka
@both_modes
async def test_the_rounds_of_a_relay_are_traced(
    kafka: Any, make_config: Any, run_relay: Any, echo: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    records = [
        msgspec.structs.replace(each, headers=(traceparent(number + 1), ("tracestate", STATE.encode())))
        for number, each in enumerate(numbered(40))
    ]
    await kafka.produce(source, records)
    async with collecting(monkeypatch) as collector:
        relay = run_relay(make_config(source, target, tracing_enabled=True, **MODES[mode]), echo(target))
        found = await kafka.read(target, 40, committed=mode == "exactly-once")
        assert await relay.stop() == 0, relay.log.events
        spans = collector.spans
    check_complete(found, 40)
    # Readers continue the producers' traces: relay passes the headers on.
    assert sorted(dict(each.headers)["traceparent"] or b"" for each in found) == sorted(
        dict(each.headers)["traceparent"] or b"" for each in records
    )
    assert sum(map(_count, spans)) == 40
    assert {span.status.code for span in spans} == {OK}
    linked = [int(link.span_id.hex(), 16) for span in spans for link in span.links]
    assert sorted(linked) == list(range(1, 41))


@pytest.mark.kafka
async def test_a_collector_that_does_not_answer_holds_nothing_up(
    kafka: Any, make_config: Any, run_relay: Any, echo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers only after the relay has ended; its queue is full before."""
    source, target = await kafka.topic(2), await kafka.topic(2)
    environment = {"OTEL_BSP_MAX_QUEUE_SIZE": "2", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1"}
    async with collecting(monkeypatch, **environment) as collector:
        collector.answers.clear()
        relay = run_relay(make_config(source, target, tracing_enabled=True), echo(target))
        for number in range(6):
            await kafka.produce(source, numbered(10, start=10 * number))
            await kafka.read(target, 10 * (number + 1))
        assert await relay.stop() == 0
        assert (collector.asked, collector.spans) == (1, [])
    assert relay.log.named("tracing.unfinished")
    assert relay.log.named("relay.stopped")[0]["records_written"] == 60
