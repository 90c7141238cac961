"""Tests use the names that other modules may use, and change no constant of the product.

A private name that a test needs becomes public, or the test looks at its effect. A constant that a test needs to
be different becomes the default of a parameter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from docs.generate import ROOT

#: Private names of other packages that have no public ones for what tests look at, or break.
_OF_OTHERS = {
    "_accumulatorRegistry": "pyspark",
    "_asdict": "a method of NamedTuple",
    "_DefaultRecordBatchBuilderPy": "aiokafka",
    "_assignment": "aiokafka",
    "_build": "aiokafka",
    "_client": "aiokafka",
    "_client_id": "aiokafka",
    "_closed": "aiokafka",
    "_coordinator": "aiokafka",
    "_exit": "os",
    "_fetcher": "aiokafka",
    "_gateway": "pyspark",
    "_gateway_client": "pyspark",
    "_get_conn": "aiokafka",
    "_jsc": "pyspark",
    "_jsparkSession": "pyspark",
    "_jvm": "pyspark",
    "_max_poll_interval_ms": "aiokafka",
    "_md_synchronizer": "aiokafka",
    "_metadata_update": "aiokafka",
    "_partition_records": "aiokafka",
    "_records": "aiokafka",
    "_replace": "a method of NamedTuple",
    "_send_req": "aiokafka",
    "_send_request": "aiokafka",
    "_sender": "aiokafka",
    "_sequence_numbers": "aiokafka",
    "_temp_dir": "pyspark",
    "_transport": "asyncio",
    "_txn_consumer_group": "aiokafka",
    "_txn_manager": "aiokafka",
    "_txn_partitions": "aiokafka",
    "_versions": "aiokafka",
}
_EXCEPTIONS = {
    "decoded_once.py: translator._line": "suites that take all captures through all routes decode each record once",
    "conftest.py: relay.codecs.shared.compiled.AT_USE": "one setting of the whole suite: it compiles at once",
    "conftest.py: relay.core.translator.Translator._template_policy": "the same for templates",
}
#: Most files have none; to parse a file takes longer.
_MAY_HAVE_ONE = re.compile(
    r"(?<!\bself)(?<!\bcls)(?<!\bsuper\(\))\._[A-Za-z]|import .*\b_[A-Za-z]|^\s+_[A-Za-z]\w*,$|setattr\(",
    re.MULTILINE,
).search
_OWNERS = {"self", "cls", "super()"}
_IS_PRIVATE = re.compile(r"_[A-Za-z]\w*").fullmatch
_IS_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+").fullmatch
_IS_CONSTANT_OF_OURS = re.compile(r"(relay|spark_backfill)(\.\w+)*\.[A-Z][A-Z0-9_]+").fullmatch


def _private_names(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
    """Each private name that is not of the object itself, with its source text."""
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if _IS_PRIVATE(node.attr) and ast.unparse(node.value) not in _OWNERS:
                yield node.attr, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            yield from ((each.name, each.name) for each in node.names if _IS_PRIVATE(each.name))
        elif _is_setattr(node):
            texts = [str(each.value) for each in node.args[:2] if isinstance(each, ast.Constant)]
            names = ((text.rpartition(".")[2], text) for text in texts)
            yield from ((name, text) for name, text in names if _IS_PRIVATE(name))


def _is_setattr(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr"


def _changed_constants(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Each constant of the product that is replaced."""
    modules = {
        name.asname or name.name: node.module
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("relay", "spark_backfill"))
        for name in node.names
    }
    for node in nodes:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and _IS_CONSTANT_OF_OURS(node.value):
                yield node.value
        elif _is_setattr(node) and len(node.args) == 3:
            owner, name, _ = (ast.unparse(each).strip("'\"") for each in node.args)
            if owner.partition(".")[0] in modules and _IS_CONSTANT(name):
                yield f"{owner}.{name}"


def test_tests_use_no_private_names_and_change_no_constants() -> None:
    found, of_others = set[str](), set[str]()
    for path in (ROOT / "tests").rglob("*.py"):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT / "tests").as_posix()
        if not _MAY_HAVE_ONE(text):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        private = list(_private_names(nodes))
        of_others |= {word for word, _ in private if word in _OF_OTHERS}
        found |= {f"{name}: {source}" for word, source in private if word not in _OF_OTHERS}
        found |= {f"{name}: {source}" for source in _changed_constants(nodes)}
    assert found == _EXCEPTIONS.keys()
    assert of_others == _OF_OTHERS.keys(), "a name that is not needed any more"
