"""Source topics by a pattern: which names it matches, which of them relay leaves out, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_support import MINIMAL, load, problems

from relay.cli.check import summary
from relay.config import Config
from relay.text.expressions import name_expression

NAMED = 'topics = ["orders"]'


def text(pattern: str, *, more: str = "", target: str = "{topic}.canal", tables: str = "") -> str:
    """A minimal configuration with a pattern instead of topics; `more`: other keys of [source]."""
    assert NAMED in MINIMAL
    chosen = MINIMAL.replace(NAMED, f"topics_pattern = '{pattern}'\n{more}")
    return chosen.replace('topic = "{topic}.canal"', f'topic = "{target}"') + tables


def config(tmp_path: Path, pattern: str, **given: str) -> Config:
    return load(tmp_path, text(pattern, **given))


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (r"shop\..*", ["shop.a", "shop.a.b"], ["shop", "shopxa", "my.shop.a", "shop."[:-1]]),
        (r"^shop\..*$", ["shop.a"], ["my.shop.a"]),
        ("shop|crm", ["shop", "crm"], ["shop.a", "crmx"]),
        (r"(shop|crm)\.orders_[0-9]{2}", ["shop.orders_00", "crm.orders_15"], ["shop.orders_1"]),
        (r"(?P<name>shop)-\w+\.v\d", ["shop-a_b.v1"], ["shop-a-b.v1"]),
    ],
)
def test_a_pattern_matches_whole_names(
    tmp_path: Path, pattern: str, matching: list[str], others: list[str]
) -> None:
    found = config(tmp_path, pattern, target="out")
    assert [name for name in [*matching, *others] if found.reads(name)] == matching


def test_exclusions(tmp_path: Path) -> None:
    found = config(tmp_path, r"shop\..*", more=r"exclude_topics_pattern = 'shop\.audit(_.*)?'")
    names = ["shop.a", "shop.audit", "shop.audit_log", "shop.audits"]
    assert [name for name in names if found.reads(name)] == ["shop.a", "shop.audits"]


def test_topics_that_the_route_may_write_are_left_out(tmp_path: Path) -> None:
    rules = "\n[[target.topics]]\nmatch = 'shop.*'\ntopic = 'hot.{database}_{table}'\n"
    rules += "[errors]\ndecode = 'dead-letter'\n"
    found = config(tmp_path, ".*", target="cdc.{topic}.{table}", tables=rules)
    written = [
        "cdc.shop.orders",
        "cdc.a.b.c",
        "hot.shop_orders",
        "relay.schema-history.g",
        "relay.dead-letters.g",
    ]
    assert [name for name in [*written, "cdc", "hot.orders", "shop.orders"] if found.reads(name)] == [
        "cdc",
        "hot.orders",
        "shop.orders",
    ]


def test_names_decide_in_any_order(tmp_path: Path) -> None:
    """A topic whose name a target would have is not read, although the other topic does not exist yet."""
    found = config(tmp_path, "a.*")
    assert not found.reads("ab.canal")
    assert not found.reads("ab.canal.canal")
    assert found.reads("b.canal") is False
    assert found.reads("ab.canals")


def test_another_cluster_may_have_the_same_names(tmp_path: Path) -> None:
    found = config(tmp_path, ".*", target="{topic}", tables="bootstrap_servers = 'other:9092'\n")
    assert found.reads("orders")
    assert found.reads("relay.schema-history.g")


def test_the_topics_that_are_found(tmp_path: Path) -> None:
    found = config(tmp_path, "a.*").with_topics(["ab", "aa", "ab"])
    assert found.source.topics == ("aa", "ab")
    assert found.target_topics == {"aa": "aa.canal", "ab": "ab.canal"}
    assert found.reads("ac")


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "is not a regular expression: missing ), unterminated subpattern"),
        ("*", "repeats nothing with '*': patterns of topics repeat characters only"),
        ("(a|b)+", "repeats a group with '+': patterns of topics repeat characters only"),
        (".*a.*b.*c.*d.*", "has more than 4 repetitions"),
        ("(?!a).*", "has a group that begins with '(?': patterns of topics have neither lookaheads"),
        (r"\bshop", r"has '\\b': of escaped letters, patterns of topics have only \d, \w and \s"),
        ("^$", "matches no name"),
        ("a{b", "has '{' at character 2, which Java does not read"),
        ("a{,3}", "has '{,3}' at character 2, which Java does not read"),
    ],
)
def test_wrong_patterns(tmp_path: Path, pattern: str, problem: str) -> None:
    for key in ("topics_pattern", "exclude_topics_pattern"):
        given = text(pattern) if key == "topics_pattern" else text("a.*", more=f"{key} = '{pattern}'")
        (found,) = problems(tmp_path, given)
        assert found.startswith(f"source.{key}: {problem}")


def test_contradictions(tmp_path: Path) -> None:
    both = MINIMAL.replace(NAMED, f"{NAMED}\ntopics_pattern = 'a.*'")
    assert problems(tmp_path, both) == [
        "source.topics_pattern: is given, and so is topics (keep one of them)"
    ]
    assert problems(tmp_path, MINIMAL.replace(NAMED, "")) == [
        "source.topics: is missing (name the topics to read, or give a topics_pattern)"
    ]
    excluding = MINIMAL.replace(NAMED, f"{NAMED}\nexclude_topics_pattern = 'a'")
    (problem,) = problems(tmp_path, excluding)
    assert problem.startswith("source.exclude_topics_pattern: has no effect without topics_pattern")
    (problem,) = problems(tmp_path, text("a.*", target="{topic}"))
    assert problem.startswith("target.topic: relay would read what it writes")


def test_watermarks_of_repartitioned_rows_are_refused(tmp_path: Path) -> None:
    spread = text("a.*", tables="partitions = 4\n").replace('to = "canal-json"', 'to = "ticdc-canal-json"')
    spread = spread.replace("[source]", "to_options = {enable-tidb-extension = true}\n[source]")
    (problem,) = problems(tmp_path, spread)
    assert problem.startswith("source.topics_pattern: `partitions` in [target] repartitions rows")
    assert load(tmp_path, spread + 'watermarks = "drop"\n').source.topics_pattern


def test_offsets_of_matching_topics(tmp_path: Path) -> None:
    start = "start = 'offsets'\nstart_offsets = {'%s/0' = 3}"
    assert config(tmp_path, "a.*", more=start % "ab").source.start_offsets == {"ab/0": 3}
    (problem,) = problems(tmp_path, text("a.*", more=start % "b"))
    assert '"b/0" is not the partition of a source topic' in problem


def test_check_describes_the_choice(tmp_path: Path) -> None:
    found = config(tmp_path, r"shop\..*", more="exclude_topics_pattern = 'shop.x'")
    assert summary(found).splitlines()[-1] == r"  all that match shop\..*, without shop.x → {topic}.canal"


def test_groups_have_no_names() -> None:
    """Java writes them differently."""
    assert name_expression(r"^(?P<one>a)(b|c)(?:d)\(\$$", "patterns") == r"(?:a)(?:b|c)(?:d)\(\$"
