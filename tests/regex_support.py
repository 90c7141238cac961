"""All regular expressions of relay, and the steps that one of them takes on a text.

`expressions` reads the sources: each call of `re` with its pattern, and whether the pattern is searched for or
tried at one position only. `steps` runs a pattern in a backtracking matcher that counts, so the growth is exact
and the same on every machine. CPython's matcher has shortcuts that only save steps.
"""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from itertools import islice, permutations
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import relay
import spark_backfill
from relay.model.table_globs import TableGlob
from relay.mysql.dumps import within_statement
from relay.mysql.numbers import WHOLE_NUMBER
from relay.routing.topic_names import TopicTemplate
from relay.rules.tables.rules import name_pair_patterns
from relay.service.check.registries import subject_pattern
from relay.text.expressions import name_expression
from spark_backfill.spark_errors import MEANINGS

parser: Any = importlib.import_module("re._parser")
opcodes: Any = importlib.import_module("re._constants")
REPEATS = {opcodes.MAX_REPEAT, opcodes.MIN_REPEAT, opcodes.POSSESSIVE_REPEAT}
ASSERTIONS = {opcodes.ASSERT, opcodes.ASSERT_NOT}
SINGLE = {opcodes.LITERAL, opcodes.NOT_LITERAL, opcodes.IN, opcodes.ANY, opcodes.CATEGORY}
_COMPILING = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}

_TOPICS = r"^shop\.(orders|items)(_[0-9]+)?\.[a-z]*-v\d$"
_GLOB = TableGlob.parse("a*b?c*.*d*e")
#: Expressions that are made from arguments, by the function that makes them: some such as it makes.
_SEARCHED: dict[str, list[re.Pattern[Any]]] = {
    "relay.codecs.debezium.native.fields._avro": [re.compile("[^A-Za-z0-9_]")],
    "relay.codecs.debezium.native.fields._avro_unicode": [re.compile("[^A-Za-z0-9]")],
    "relay.config.secrets.without_secrets": [re.compile("secret|other")],
    "spark_backfill.spark_errors.explained": list(map(re.compile, MEANINGS)),
}
#: Those of them that are tried at one position only.
_ANCHORED: dict[str, list[re.Pattern[Any]]] = {
    "relay.mysql.dumps._stepping_over": [within_statement(b";"), within_statement(b"$$")],
    "relay.mysql.numbers.decimal_converter": [re.compile(WHOLE_NUMBER + r"(?:\.[0-9]{1,30})?")],
    "relay.service.check.registries.subject_patterns": [re.compile(subject_pattern("a-relaydatabase-value"))],
    "relay.model.table_globs.name_pattern": [_GLOB.database, _GLOB.table],
    "relay.routing.topic_names.pattern": [
        TopicTemplate.parse("{topic}-{database}.{table}").pattern(["a", "b.c"])
    ],
    "relay.text.expressions.is_whole_match": [re.compile(name_expression(_TOPICS, "patterns"))],
    "relay.text.expressions.name_expression": [re.compile(name_expression(_TOPICS, "patterns"))],
    "relay.rules.tables.rules.name_pair_patterns": list(name_pair_patterns(r"shop_(\d+)", r"(\w+?)_[a-z]+")),
    "spark_backfill.footers.columns_in": [re.compile(r"^  (\S+) key(?=;| \(| \{)")],
    "spark_backfill.locations.check_folder": [re.compile(r"a|b=[^/]+/c=[^/]+(/step=\d+)?/d", re.DOTALL)],
}


class Expression(NamedTuple):
    """A regular expression. `is_searched`: it is tried at every position of a text."""

    where: str
    pattern: re.Pattern[Any]
    is_searched: bool


@functools.cache
def expressions() -> list[Expression]:
    """Return each expression of relay and of the Spark job. Raises KeyError for one made in an unknown way."""
    found: dict[tuple[str, str | bytes, int], Expression] = {}
    for module in _modules():
        for each in _Calls(module).expressions():
            key = (each.where, each.pattern.pattern, each.pattern.flags)
            found[key] = each if each.is_searched or key not in found else found[key]
    return list(found.values())


def _modules() -> Iterator[ModuleType]:
    for package in (relay, spark_backfill):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


class _Calls(ast.NodeVisitor):
    """The calls of `re` in a module."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        assert module.__file__ is not None
        self._source = Path(module.__file__).read_text()
        self._functions: list[str] = []
        self._found: list[Expression] = []

    def expressions(self) -> list[Expression]:
        if "import re\n" in self._source:
            self.visit(ast.parse(self._source))
        return self._found

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._functions.append(node.name)
        self.generic_visit(node)
        self._functions.pop()

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        name = _name_of(node.func)
        if not (name.startswith("re.") and name[3:] in _COMPILING):
            return
        where = f"{self._module.__name__}.{self._functions[-1] if self._functions else ''}"
        method = name[3:]
        try:
            pattern = self._pattern(node, method)
        except NameError:
            made = _ANCHORED.get(where) or _SEARCHED[where]
            self._found += [Expression(where, each, where in _SEARCHED) for each in made]
        else:
            self._found.append(Expression(where, pattern, self._is_searched(method, pattern)))

    def _pattern(self, node: ast.Call, method: str) -> re.Pattern[Any]:
        flags = [each.value for each in node.keywords if each.arg == "flags"]
        if method == "compile":
            flags += node.args[1:2]
        return re.compile(*[self._value(each) for each in (node.args[0], *flags)])

    def _value(self, node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "pattern", "eval"), vars(self._module))  # noqa: S307 - our own code

    def _is_searched(self, method: str, pattern: re.Pattern[Any]) -> bool:
        """Whether it is searched for: unless each use of its name, or of its method, is one of `match`."""
        if method != "compile":
            return method not in {"match", "fullmatch"}
        # Equal rather than the same: Python keeps only the last few hundred compiled expressions.
        for name, value in vars(self._module).items():
            if value == pattern and name.startswith("_"):
                uses = set(re.findall(rf"\b{name}\b(?!: Final| =)(?:\.(\w+))?", self._source))
                return not uses <= {"match", "fullmatch", "pattern"}
            for each in value.values() if isinstance(value, dict) else (value,):
                if getattr(each, "__self__", None) == pattern:
                    return each.__name__ not in {"match", "fullmatch"}
        return True


def _name_of(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Attribute) else ""


def inside(op: Any, value: Any) -> Iterator[Any]:
    """Give the sequences inside an item of a parsed pattern."""
    if op in REPEATS:
        yield value[2]
    elif op is opcodes.BRANCH:
        yield from value[1]
    elif op is opcodes.SUBPATTERN:
        yield value[-1]
    elif op in ASSERTIONS:
        yield value[1]
    elif op is opcodes.ATOMIC_GROUP:
        yield value


class TooManySteps(Exception):
    """A pattern takes more steps than allowed."""


class Matcher:
    """Matches as CPython does, and counts. `most`: steps after which it raises TooManySteps."""

    def __init__(self, pattern: re.Pattern[Any], most: int) -> None:
        self._flags, self._most = pattern.flags, most
        self._ascii = isinstance(pattern.pattern, bytes) or bool(pattern.flags & re.ASCII)
        self._items = list(parser.parse(pattern.pattern, pattern.flags))
        #: The item that a match begins with, if it takes a character.
        self._first = self._items[0] if self._items and self._items[0][0] in SINGLE else None
        self._text, self._groups = "", dict[int, str]()
        #: Whether an item takes a character; the items live as long as what was parsed.
        self._taken: dict[tuple[int, str], bool] = {}
        self.steps = 0

    def run(self, text: str, *, is_searched: bool) -> int:
        """Return the steps of one match, or of a search for all matches."""
        self.steps, at = 0, 0
        while at <= len(text):
            end = self.end(text, at)
            if not is_searched:
                break
            at = at + 1 if end is None else max(end, at + 1)
        return self.steps

    def end(self, text: str, at: int) -> int | None:
        """Return where a match at a position ends; None if there is none."""
        if self._first is not None and (at >= len(text) or not self._takes(self._first, text[at])):
            self._count()
            return None
        self._text, self._groups = text, dict[int, str]()
        return next(self._sequence(self._items, 0, at), None)

    def _count(self, steps: int = 1) -> None:
        self.steps += steps
        if self.steps > self._most:
            raise TooManySteps

    def _takes(self, item: Any, char: str) -> bool:
        """The same, remembered."""
        key = id(item), char
        found = self._taken.get(key)
        if found is None:
            found = self._taken[key] = self.accepts(item[0], item[1], char)
        return found

    def accepts(self, op: Any, value: Any, char: str) -> bool:
        """Whether an item for single characters takes one."""
        if op is opcodes.ANY:
            return char != "\n" or bool(self._flags & re.DOTALL)
        forms = {char, char.lower(), char.upper()} if self._flags & re.IGNORECASE else {char}
        if op is opcodes.LITERAL:
            return any(form == chr(value) for form in forms)
        if op is opcodes.NOT_LITERAL:
            return all(form != chr(value) for form in forms)
        items = [(op, value)] if op is opcodes.CATEGORY else value
        is_negated = items[0][0] is opcodes.NEGATE
        return is_negated != any(self._is_in(item, form) for item in items for form in forms)

    def _is_in(self, item: tuple[Any, Any], char: str) -> bool:
        op, value = item
        if op is opcodes.LITERAL:
            return char == chr(value)
        if op is opcodes.RANGE:
            least, most = value
            return bool(least <= ord(char) <= most)
        if op is opcodes.CATEGORY:
            return _CATEGORIES[str(value)](char, self._ascii)
        return False

    def _sequence(self, items: list[Any], at: int, pos: int) -> Iterator[int]:
        """Give the ends of a sequence's matches from its item `at` on, in CPython's order."""
        while at < len(items) and items[at][0] in SINGLE:
            self._count()
            if pos >= len(self._text) or not self._takes(items[at], self._text[pos]):
                return
            at, pos = at + 1, pos + 1
        if at == len(items):
            yield pos
            return
        for end in self._item(items[at][0], items[at][1], pos):
            yield from self._sequence(items, at + 1, end)

    def _item(self, op: Any, value: Any, pos: int) -> Iterator[int]:
        self._count()
        if op in REPEATS:
            return self._repeat(op, value, pos)
        if op in ASSERTIONS:
            return self._assertion(op, value, pos)
        if op is opcodes.BRANCH:
            return (end for branch in value[1] for end in self._sequence(list(branch), 0, pos))
        if op is opcodes.SUBPATTERN:
            return self._group(value, pos)
        if op is opcodes.ATOMIC_GROUP:
            return islice(self._sequence(list(value), 0, pos), 1)
        if op is opcodes.GROUPREF:
            return self._reference(value, pos)
        assert op is opcodes.AT, op
        return iter((pos,) if self._is_at(str(value), pos) else ())

    def _assertion(self, op: Any, value: Any, pos: int) -> Iterator[int]:
        # One that looks behind has one width: so many characters before the position.
        start = pos - value[1].getwidth()[0] if value[0] < 0 else pos
        ends = self._sequence(list(value[1]), 0, start) if start >= 0 else iter(())
        if (next(ends, None) is not None) == (op is opcodes.ASSERT):
            yield pos

    def _group(self, value: Any, pos: int) -> Iterator[int]:
        for end in self._sequence(list(value[-1]), 0, pos):
            self._groups[value[0]] = self._text[pos:end]
            yield end

    def _reference(self, group: int, pos: int) -> Iterator[int]:
        known = self._groups.get(group, "")
        self._count(len(known))
        if self._text.startswith(known, pos):
            yield pos + len(known)

    def _is_at(self, where: str, pos: int) -> bool:
        text = self._text
        if where in {"AT_BEGINNING", "AT_BEGINNING_STRING"}:
            is_line = where == "AT_BEGINNING" and self._flags & re.MULTILINE
            return pos == 0 or bool(is_line and text[pos - 1] == "\n")
        if where == "AT_END":
            return text[pos:] in {"", "\n"} or bool(self._flags & re.MULTILINE and text[pos] == "\n")
        if where == "AT_END_STRING":
            return pos == len(text)
        word = _CATEGORIES["CATEGORY_WORD"]
        before = pos > 0 and word(text[pos - 1], self._ascii)
        behind = pos < len(text) and word(text[pos], self._ascii)
        return (before != behind) == (where == "AT_BOUNDARY")

    def _repeat(self, op: Any, value: Any, pos: int) -> Iterator[int]:
        least, most, body = value[0], value[1], list(value[2])
        if len(body) == 1 and body[0][0] in SINGLE:
            if op is opcodes.MIN_REPEAT:
                return self._few_characters(least, most, body[0], pos)
            return islice(
                self._many_characters(least, most, body[0], pos), None if op is opcodes.MAX_REPEAT else 1
            )
        if op is opcodes.POSSESSIVE_REPEAT:
            return self._possessive(least, most, body, pos)
        return self._of_groups((op is opcodes.MAX_REPEAT, least, most), body, pos)

    def _few_characters(self, least: int, most: int, item: Any, pos: int) -> Iterator[int]:
        end = pos
        while end - pos <= most:
            if end - pos >= least:
                yield end
            self._count()
            if end >= len(self._text) or not self._takes(item, self._text[end]):
                return
            end += 1

    def _many_characters(self, least: int, most: int, item: Any, pos: int) -> Iterator[int]:
        end = pos
        while end < len(self._text) and end - pos < most and self._takes(item, self._text[end]):
            end += 1
        self._count(end - pos + 1)
        for shorter in range(end, pos + least - 1, -1):
            self._count()
            yield shorter

    def _possessive(self, least: int, most: int, body: list[Any], pos: int) -> Iterator[int]:
        count = 0
        while count < most:
            end = next(self._sequence(body, 0, pos), None)
            if end is None or (end == pos and count >= least):
                break
            pos, count = end, count + 1
        if count >= least:
            yield pos

    def _of_groups(self, repeat: tuple[bool, int, int], body: list[Any], pos: int) -> Iterator[int]:
        """Give the ends of a repeated group. A stack of open iterations stands for recursion."""
        is_greedy, least, most = repeat
        if not is_greedy and least == 0:
            yield pos
        stack = [(pos, self._sequence(body, 0, pos))]
        while stack:
            start, ends = stack[-1]
            end = next(ends, None)
            if end is None:
                stack.pop()
                if is_greedy and len(stack) >= least:
                    yield start
                continue
            if end == start and len(stack) > least:
                continue
            if not is_greedy and len(stack) >= least:
                yield end
            if len(stack) < most:
                stack.append((end, self._sequence(body, 0, end)))
            elif is_greedy:
                yield end


_Category = Callable[[str, bool], bool]


def _category(is_such: Callable[[str], bool]) -> tuple[_Category, _Category]:
    def yes(char: str, is_ascii: bool) -> bool:
        return is_such(char) and not (is_ascii and char > "\x7f")

    return yes, lambda char, is_ascii: not yes(char, is_ascii)


_CATEGORIES: dict[str, _Category] = {}
for _what, _test in (
    ("DIGIT", str.isdecimal),
    ("SPACE", str.isspace),
    ("WORD", lambda char: char.isalnum() or char == "_"),
):
    _CATEGORIES[f"CATEGORY_{_what}"], _CATEGORIES[f"CATEGORY_NOT_{_what}"] = _category(_test)
#: One character or more of each class that patterns tell apart.
CHARACTERS = " \n\ta0A_-.,:;\"'`\\/*()[]{}|=&<>+@#$%!é\x00"


class Texts:
    """Texts that make a pattern's repetitions grow."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self._matcher = Matcher(pattern, 0)
        self._parsed = parser.parse(pattern.pattern, pattern.flags)

    def growing(self) -> Iterator[tuple[str, str, str]]:
        """Give the beginning of a text, the part that is repeated, and the end, which is such that it fails."""
        whole = self.sample(self._parsed)
        parts = dict.fromkeys([("", char) for char in CHARACTERS] + list(self._repeated(self._parsed, "")))
        befores = dict.fromkeys(before for before, _ in parts if before)
        again = [each + end for each in (*befores, whole) if each for end in ("", "\n")]
        parts |= dict.fromkeys(("", each) for each in again)
        literals = [char for char in self._literals(self._parsed) if char in CHARACTERS][:6]
        parts |= dict.fromkeys(("", one + other) for one, other in permutations(literals, 2))
        # A beginning that is there again and again, before a run that may belong to each of them.
        parts |= dict.fromkeys((before, before + part) for before, part in list(parts) if before)
        for before, part in parts:
            for after in ("", "\n\x01"):
                yield before, part, after

    def _repeated(self, sequence: Any, before: str) -> Iterator[tuple[str, str]]:
        items = list(sequence)
        for at, (op, value) in enumerate(items):
            begun = before + self.sample(items[:at])
            if op in REPEATS and value[1] >= 16:
                body = list(value[2])
                if len(body) == 1 and body[0][0] in SINGLE:
                    taken = [
                        char for char in CHARACTERS if self._matcher.accepts(body[0][0], body[0][1], char)
                    ]
                    yield from ((begun, char) for char in taken[:4])
                else:
                    yield begun, self.sample(body)
            for part in inside(op, value):
                yield from self._repeated(part, begun)

    def _literals(self, sequence: Any) -> dict[str, None]:
        """Return the characters that a sequence names, in their order."""
        found: dict[str, None] = {}
        for op, value in sequence:
            if op in {opcodes.LITERAL, opcodes.NOT_LITERAL}:
                found[chr(value)] = None
            elif op is opcodes.IN:
                found |= dict.fromkeys(chr(each[1]) for each in value if each[0] is opcodes.LITERAL)
            for part in inside(op, value):
                found |= self._literals(part)
        return found

    def sample(self, sequence: Any) -> str:
        """Return a short text that a sequence matches, as far as assertions allow."""
        return "".join(self._sample(op, value) for op, value in sequence)

    def _sample(self, op: Any, value: Any) -> str:
        if op is opcodes.LITERAL:
            return chr(value)
        if op in SINGLE:
            likely = "a0 " + CHARACTERS
            found = [char for char in likely if self._matcher.accepts(op, value, char)]
            return found[0] if found else next(_first_of(item) for item in value)
        if op in REPEATS:
            return self.sample(value[2]) * int(value[0])
        if op is opcodes.BRANCH:
            return self.sample(value[1][0])
        if op is opcodes.SUBPATTERN:
            return self.sample(value[-1])
        return self.sample(value) if op is opcodes.ATOMIC_GROUP else ""


def _first_of(item: tuple[Any, Any]) -> str:
    op, value = item
    return chr(value[0] if op is opcodes.RANGE else value)


#: Sizes at which growth is compared; the larger ones tell a bounded repetition from one without a bound.
_SIZES = ((12, 24, 48), (300, 600, 1200))
_MOST_STEPS = 400_000


def superlinear(expression: Expression) -> str | None:
    """Return a text on which an expression's steps grow faster than the text; None if there is none."""
    matcher = Matcher(expression.pattern, _MOST_STEPS)
    for text in Texts(expression.pattern).growing():
        if all(_grows(matcher, text, sizes, is_searched=expression.is_searched) for sizes in _SIZES):
            return "{!r} + {!r} * n + {!r}".format(*text)
    return None


def _grows(
    matcher: Matcher, text: tuple[str, str, str], sizes: tuple[int, int, int], *, is_searched: bool
) -> bool:
    before, part, after = text
    try:
        small, middle, large = (
            matcher.run(before + part * size + after, is_searched=is_searched) for size in sizes
        )
    except TooManySteps:
        return True
    # Twice the text: twice the steps where they grow with it, four times where they grow with its square.
    return large - middle > 3 * (middle - small) + 64
