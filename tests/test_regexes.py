"""No regular expression takes time that grows with the square of a text, or faster."""

from __future__ import annotations

import re

import pytest
from regex_support import CHARACTERS, Expression, Matcher, expressions, superlinear

#: Expressions that may, by module, with the reason.
_BOUNDED = {"relay.service.observe.server.": "relay's own pages, which are in the package"}


#: The expressions are tried in so many parts, of which `make quick` takes three.
_PARTS = 40


def test_all_expressions_are_found() -> None:
    found = expressions()
    assert len(found) > 150
    assert sum(each.is_searched for each in found) > 50
    assert _BOUNDED.keys() <= {each.where for each in found}


@pytest.mark.parametrize("part", range(_PARTS))
def test_no_expression_takes_time_that_grows_with_the_square_of_a_text(part: int) -> None:
    tried = [each for each in expressions()[part::_PARTS] if each.where not in _BOUNDED]
    slow = {f"{each.where} {each.pattern.pattern!r}": superlinear(each) for each in tried}
    assert {name: text for name, text in slow.items() if text is not None} == {}


@pytest.mark.one_case
@pytest.mark.parametrize(
    ("pattern", "is_searched", "is_slow"),
    [
        (rb"[ \t]*(a)", True, True),
        (rb"[ \t]*(a)", False, False),
        (r"(a+)+b", False, True),
        (r"(a|aa)+$", False, True),
        (r"^- .*?  b: ([^\n]+?)[ \t]*$", False, True),
        (r"/\*.*?\*/", True, True),
        (r'"(?:[^"\\]++|\\.)*+"', True, True),
        (r'"(?:[^"\\]++|\\.)*+"?', True, False),
        (r"\d{1,100}x", True, False),
        (r"\d+x", True, True),
        (r"(?<!\d)\d++x", True, False),
        (r"<([^>]{0,20})>", True, False),
        (r"(?>[^,]*),", False, False),
    ],
)
def test_slow_expressions_are_found(pattern: str | bytes, is_searched: bool, is_slow: bool) -> None:
    expression = Expression("here", re.compile(pattern), is_searched)
    assert (superlinear(expression) is not None) is is_slow


@pytest.mark.parametrize(
    "text", ["", "ab,c", "\\,a,", 'x"a\\"b" 12.5e3 ', "/* a */ b--\nc", "aXbxc", CHARACTERS]
)
@pytest.mark.parametrize(
    "pattern",
    [
        r"[a-c]+?,",
        r"(?:[^\\,]++|\\.)*+",
        r'"(?:[^"\\]|\\.)*"|\d+(?:\.\d+)?',
        r"(?i)x(?=b)|(?<=b)x",
        r"(?>a|b)+|\W{2,3}",
        r"(\w)(?:(?!\1).)*?c",
        r"(?m)^.+?$",
        r"\b\w+\b",
    ],
)
def test_the_counting_matcher_finds_the_same_as_python(pattern: str, text: str) -> None:
    compiled = re.compile(pattern)
    expected = [compiled.match(text, at) for at in range(len(text) + 1)]
    ends = [Matcher(compiled, 10_000).end(text, at) for at in range(len(text) + 1)]
    assert ends == [found and found.end() for found in expected]
