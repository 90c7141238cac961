"""Where the edge cases of schemas and registries are tested: beside what they are about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from edge_cases.support import EdgeCases

CASES = EdgeCases("registries", "Schemas and registries")
_TESTS = Path(__file__).parents[1]
_FRAMES, _DEBEZIUM = "codecs/test_avro.py", "codecs/test_debezium_avro.py"
_TICDC, _CLIENT = "codecs/test_ticdc_debezium_avro.py", "registry/test_client.py"
ELSEWHERE = [
    ("R01", _CLIENT, "test_a_schema_is_found_by_its_id_and_its_guid"),
    ("R01 R02", _FRAMES, "test_frames"),
    ("R03", "test_detection.py", "test_ids_of_eight_bytes_are_named"),
    ("R04 R05", _FRAMES, "test_what_is_no_frame_is_refused"),
    ("R06", _DEBEZIUM, "test_a_tombstone_is_left_out"),
    ("R07", _FRAMES, "test_a_name_in_the_namespace_and_a_full_one_are_the_same_type"),
    ("R08", _CLIENT, "test_schemas_that_one_refers_to_come_with_it_those_that_others_need_first"),
    ("R08", _CLIENT, "test_references_that_end_nowhere_are_refused_and_those_in_a_circle_end"),
    ("R09", _FRAMES, "test_many_schemas_stay_within_the_cache"),
    ("R10", _TICDC, "test_a_table_with_the_name_of_its_sources_record_is_refused"),
    ("R11", _TICDC, "test_unsigned_numbers_that_a_long_does_not_hold_are_refused"),
    ("R13", _DEBEZIUM, "test_names_that_avro_does_not_take_are_refused_or_adjusted"),
    ("R14", _CLIENT, "test_an_id_that_comes_late_is_waited_for"),
    ("R15", _CLIENT, "test_an_id_that_is_not_there_is_asked_for_once_in_a_while"),
    ("R16", _CLIENT, "test_a_registry_that_knows_no_guids_is_named_as_a_reason"),
    ("R17", _CLIENT, "test_passing_faults_are_tried_again"),
    ("R18", _CLIENT, "test_refused_credentials_are_said_at_once"),
    ("R19", _CLIENT, "test_an_incompatible_schema_says_field_rule_and_remedy"),
    ("R20", _CLIENT, "test_an_answer_that_is_none_is_refused"),
    ("R21", _CLIENT, "test_a_schema_is_registered_once_and_looked_up_afterwards"),
    ("R22", _CLIENT, "test_subjects_are_escaped"),
    ("R23", _CLIENT, "test_another_url_is_asked_and_stays_the_first_one"),
    ("R23", _CLIENT, "test_what_was_answered_once_is_there_while_the_registry_is_away"),
    (
        "R24",
        "registry/test_apicurio.py",
        "test_each_change_of_a_table_is_one_version_and_a_restart_registers_none",
    ),
    ("R25", "readers/test_avro.py", "test_"),
]


@pytest.mark.parametrize(
    ("file", "test"), [CASES.param(numbers, file, test) for numbers, file, test in ELSEWHERE]
)
def test_the_case_is_tested(file: str, test: str) -> None:
    text = (_TESTS / file).read_text(encoding="utf-8")
    assert re.search(rf"^(?:async )?def {test}", text, re.MULTILINE)


def test_every_number_is_tested_or_decided() -> None:
    CASES.check()
