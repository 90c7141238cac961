"""Decoders whose templates come from `check` and `interpret`: these steps test no types.

A traced value has another type than the captured one. A type test would take another branch for it, and the
template would be wrong. Tests of types belong to `decode`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from relay.codecs import PROTOCOLS
from relay.codecs.canal.canal_json.decoder import interpret as interpret_canal
from relay.codecs.canal.canal_protobuf.decoder import check as check_protobuf
from relay.codecs.canal.canal_protobuf.decoder import interpret as interpret_protobuf
from relay.codecs.canal.ckafka.decoder import interpret as interpret_ckafka
from relay.codecs.canal.ckafka.messages import check as check_ckafka
from relay.codecs.canal.ticdc.decoder import interpret as interpret_ticdc
from relay.codecs.codec import ValueDecoder
from relay.codecs.debezium.native import messages as native
from relay.codecs.debezium.shared.decoder import MessageDecoder
from relay.codecs.debezium.ticdc import messages as ticdc
from relay.codecs.maxwell.decoder import interpret as interpret_maxwell
from relay.codecs.maxwell.messages import check as check_maxwell
from relay.codecs.ogg.decoder import interpret as interpret_ogg
from relay.codecs.ogg.messages import check as check_ogg
from relay.codecs.open_protocol.decoder import check, interpret
from relay.codecs.simple.decoder import check as check_simple
from relay.codecs.simple.decoder import interpret as interpret_simple
from relay.codecs.ticdc_avro import decoder as ticdc_avro

Function = Callable[..., Any]
#: `interpret` of the decoder of each source protocol with templates (`change_of` of TiCDC Avro), and steps that
#: it is given as functions or that come before it.
STEPS: dict[str, list[Function]] = {
    "ticdc-open-protocol": [interpret, check],
    "ticdc-simple-json": [interpret_simple, check_simple],
    "ticdc-simple-avro": [interpret_simple, check_simple],
    "maxwell-json": [interpret_maxwell, check_maxwell],
    "ogg-json": [interpret_ogg, check_ogg],
    "canal-json": [interpret_canal],
    "canal-protobuf": [interpret_protobuf, check_protobuf],
    "ticdc-canal-json": [interpret_ticdc],
    "debezium-json": [MessageDecoder.interpret, native.facts_of],
    "ckafka-json": [interpret_ckafka, check_ckafka],
    "ticdc-avro": [ticdc_avro.change_of, ticdc_avro.source_of],
    "ticdc-debezium": [MessageDecoder.interpret, ticdc.facts_of, ticdc.check],
}
TYPE_TESTS = {"isinstance", "issubclass", "type", "callable"}


def tree_of(function: Function) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def called(function: Function) -> Iterator[Function]:
    """The functions of its family that a function names."""
    owner = inspect.getmodule(function)
    family = ".".join(function.__module__.split(".")[:3])
    class_ = getattr(owner, function.__qualname__.rpartition(".")[0], None)
    for node in ast.walk(tree_of(function)):
        found = None
        if isinstance(node, ast.Name):
            found = getattr(owner, node.id, None)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
            found = getattr(class_, node.attr, None)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "super()":
            found = getattr(super(class_, class_), node.attr, None)
        if inspect.isfunction(found) and found.__module__.startswith(family):
            yield found


def all_called(step: Function) -> list[Function]:
    """A step, and all functions of its family that it calls."""
    found = [step]
    for function in found:
        found += [each for each in dict.fromkeys(called(function)) if each not in found]
    return found


def type_tests(tree: ast.AST) -> list[str]:
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.MatchClass) or (isinstance(node, ast.Name) and node.id in TYPE_TESTS)
    ]


def tracing_decoders() -> dict[str, type]:
    """The decoders with templates, by protocol. Those of Avro convert messages for one of JSON."""
    found = {name: codec.decoder for name, codec in PROTOCOLS.items() if codec.templates.marker is not None}
    classes = {name: each.func if isinstance(each, partial) else each for name, each in found.items()}
    return {
        name: each for name, each in classes.items() if isinstance(each, type) and hasattr(each, "traced")
    }


def test_every_decoder_with_templates_has_steps() -> None:
    assert tracing_decoders().keys() == STEPS.keys()


@pytest.mark.parametrize("protocol", STEPS)
def test_templates_come_from_interpret(protocol: str) -> None:
    decoder: Any = tracing_decoders()[protocol]
    assert STEPS[protocol][0] in all_called(decoder.traced)
    decode = decoder.decode_value if issubclass(decoder, ValueDecoder) else decoder.decode
    assert STEPS[protocol][0] in all_called(decode)


@pytest.mark.parametrize(
    "step",
    dict.fromkeys(step for steps in STEPS.values() for step in steps),
    ids=lambda step: f"{step.__module__}.{step.__qualname__}",
)
def test_steps_test_no_types(step: Function) -> None:
    assert not [
        f"{function.__qualname__}: {each}"
        for function in all_called(step)
        for each in type_tests(tree_of(function))
    ]


def test_functions_that_steps_call_are_found() -> None:
    assert {each.__qualname__ for each in all_called(interpret_simple)} >= {
        "interpret",
        "_verify",
        "emitted_at_ns",
        "source_of",
    }


@pytest.mark.parametrize(
    "text", ["isinstance(ts, int)", "type(ts) is int", "match ts:\n    case int():\n        pass"]
)
def test_type_tests_are_found(text: str) -> None:
    assert type_tests(ast.parse(text))
    assert not type_tests(ast.parse("ts is None or ts > 0"))
