"""`processes` in [delivery]: the configuration of each process, and work that cannot be shared."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_support import MINIMAL, load, problems, without_variables

from relay.config import Config, load_config
from relay.config.checks import config_advice
from relay.config.kafka import shard_settings, transactional_settings

TWO = f"{MINIMAL}\n[delivery]\nprocesses = 2\n"


@pytest.fixture(autouse=True)
def _nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    without_variables(monkeypatch)


def workers(config: Config) -> list[tuple[int, int, str, str]]:
    return [
        (each.delivery.shard, each.delivery.shards, each.transactional_id, each.source.group_instance_id)
        for each in config.of_processes
    ]


def test_a_single_process_has_the_configured_shards(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL)
    assert config.of_processes == [config]


def test_members_of_a_group_have_names_of_their_own(tmp_path: Path) -> None:
    config = load(tmp_path, TWO.replace('group_id = "g"', 'group_id = "g"\ngroup_instance_id = "pod-1"'))
    assert [each.source.group_instance_id for each in config.of_processes] == ["pod-1-0", "pod-1-1"]
    assert {each.source.group_instance_id for each in load(tmp_path, TWO).of_processes} == {""}


def test_a_process_is_alone_as_far_as_it_knows_and_serves_no_http(tmp_path: Path) -> None:
    config = load(tmp_path, f"{TWO}\n[http]\nport = 8080\n")
    assert [(each.delivery.processes, each.http.port) for each in config.of_processes] == [(1, 0), (1, 0)]
    same = {"source", "delivery", "http"}
    for each in config.of_processes:
        assert each.model_dump(exclude=same) == config.model_dump(exclude=same)


@pytest.mark.parametrize(("shards", "shard"), [(1, 0), (3, 0), (3, 2)])
def test_the_shards_of_processes_are_together_that_of_their_instance(
    tmp_path: Path, shards: int, shard: int
) -> None:
    text = f'{TWO}mode = "exactly-once"\nshards = {shards}\nshard = {shard}\n'
    config = load(tmp_path, text)
    assert [each[:3] for each in workers(config)] == [
        (shard, 2 * shards, f"g-{shard}"),
        (shard + shards, 2 * shards, f"g-{shard + shards}"),
    ]
    for partition in range(20):
        readers = [number for number, count, *_ in workers(config) if partition % count == number]
        assert len(readers) == (partition % shards == shard)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("0", "greater than or equal to 1"),
        ("257", "less than or equal to 256"),
        ('"x"', "must be a whole number"),
    ],
)
def test_numbers_that_cannot_be(tmp_path: Path, value: str, said: str) -> None:
    (found,) = problems(tmp_path, TWO.replace("processes = 2", f"processes = {value}"))
    assert found.startswith("delivery.processes: ")
    assert said in found


def test_watermarks_of_spread_rows_need_one_process(tmp_path: Path) -> None:
    spread = '[target]\ntopic = "{topic}.canal"\npartitions = 4\n'
    text = TWO.replace('[target]\ntopic = "{topic}.canal"\n', spread).replace(
        'from = "ticdc-canal-json"\nto = "canal-json"',
        'from = "ticdc-canal-json"\nto = "ticdc-open-protocol"\nfrom_options = { enable-tidb-extension = true }',
    )
    (found,) = problems(tmp_path, text)
    assert found.startswith("delivery.processes: `partitions` in [target] repartitions rows")
    assert load(tmp_path, text.replace("partitions = 4", 'partitions = 4\nwatermarks = "drop"'))
    assert load(tmp_path, text.replace("processes = 2", "processes = 1"))


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({}, []),
        ({"processes = 2": 'processes = 2\n[schema]\nhistory_topic = ""'}, ["delivery.processes"]),
        ({"processes = 2": 'processes = 1\n[schema]\nhistory_topic = ""'}, []),
        (
            {
                "processes = 2": 'processes = 2\n[schema]\nhistory_topic = ""',
                '"ticdc-canal-json"': '"ticdc-open-protocol"',
            },
            [],
        ),
    ],
    ids=["history", "none", "one-process", "ddl-everywhere"],
)
def test_ddl_that_others_do_not_hear_of_is_warned_of(
    tmp_path: Path, changes: dict[str, str], keys: list[str]
) -> None:
    text = TWO
    for old, new in changes.items():
        text = text.replace(old, new)
    assert [each.path for each in config_advice(load(tmp_path, text))] == keys


def test_flag_and_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(MINIMAL)
    monkeypatch.setenv("RELAY_DELIVERY__PROCESSES", "3")
    assert load_config(path).delivery.processes == 3
    assert load_config(path, ["delivery.processes=4"]).delivery.processes == 4


@pytest.mark.parametrize("name", ["", "orders"])
def test_the_shards_of_a_route_are_those_of_all_its_processes(tmp_path: Path, name: str) -> None:
    """`relay offsets` finds them from the configuration of any instance."""
    text = MINIMAL + (
        f'[delivery]\nmode = "exactly-once"\nprocesses = 2\nshards = 3\ntransactional_id = "{name}"\n'
    )
    instances = [load(tmp_path, f"{text}shard = {shard}\n") for shard in range(3)]
    running = [transactional_settings(each) for one in instances for each in one.of_processes]
    for instance in instances:
        assert {(each.transactional_id, each.shard) for each in shard_settings(instance)} == {
            (each.transactional_id, each.shard) for each in running
        }
    assert len(running) == 6
