"""What the documentation promises, and the tests that stand behind each sentence.

A sentence that is changed or a test that is renamed fails here, and so does a new promise without a test.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from docs.generate import ROOT


class Promise(NamedTuple):
    """A sentence of a page, or as much of it as names the promise, and tests as `file::function`."""

    page: str
    sentence: str
    tests: tuple[str, ...]


_COUNTED: Final = (
    "../relay/testing/contract.py::test_what_is_written_is_read_back_as_far_as_the_codec_carries_it",
    "../relay/testing/contract.py::test_events_other_than_rows_are_read_back_or_counted",
    "../relay/testing/contract.py::test_ddl_is_written_or_counted",
    "codecs/test_contract.py::test_every_fact_of_an_event_has_a_counter",
    "../relay/testing/contract.py::test_a_fact_of_a_rows_source_is_read_back_or_counted",
)
_SAME_BYTES: Final = (
    "cli/test_two_runs.py::test_two_runs_give_the_same_bytes",
    "test_output_digests.py::test_the_bytes_are_the_same",
)
_SAME_AFTER_RESTARTS: Final = ("service/test_resilience_schemas.py::test_restarts_change_no_byte",)
_SAME_WITH_SPARK: Final = ("spark/test_every_route.py::test_every_captured_set",)
_NO_SECRET: Final = (
    "cli/test_two_runs.py::test_no_command_prints_a_secret",
    "test_config_bounds.py::test_a_password_among_the_servers_is_redacted",
    "test_config_bounds.py::test_a_password_in_another_key_is_redacted",
    "test_config_bounds.py::test_a_password_in_a_flag_is_redacted",
    "test_shown.py::test_an_address_is_shown_without_secrets",
    "test_shown.py::test_options_that_are_wrong_show_no_secret",
    "service/test_tokens.py::test_a_refusal_of_the_endpoint_is_reported_without_the_secret",
)
_NO_VALUES: Final = (
    "codecs/test_ckafka_values.py::test_text_that_is_no_value_of_its_type_is_malformed_and_not_quoted",
    "codecs/test_ticdc_debezium_read.py::test_a_malformed_value_is_named_and_not_shown",
    "service/test_http.py::test_a_defect_while_reading_is_an_answer_without_values",
)
_KILLED: Final = (
    "service/test_process.py::test_nothing_is_lost_when_it_is_killed",
    "service/test_end_to_end.py::test_killed_in_the_middle_and_started_again_nothing_is_lost",
    "service/test_exactly_once.py::test_killed_in_the_middle_nothing_is_lost_or_repeated",
)
_OUTAGE: Final = (
    "service/test_resilience.py::test_an_outage_longer_than_every_timeout",
    "service/test_loop.py::test_an_outage_is_waited_for_however_many_polls_fail",
)
_SAFE_TEXT: Final = (
    "test_shown.py::test_nothing_that_steers_a_terminal_is_left",
    "test_shown.py::test_a_log_line_is_one_harmless_line",
    "cli/test_hostile_texts.py::test_names_in_errors",
    "cli/test_hostile_texts.py::test_names_in_json_keep_their_value_and_steer_nothing",
)

PROMISES: Final = (
    Promise("README.md", "Nothing is lost silently.", _COUNTED),
    Promise("docs/library.md", "so two runs give the same bytes", _SAME_BYTES),
    Promise("docs/backfill.md", "writes the same bytes, however Spark splits a partition", _SAME_WITH_SPARK),
    Promise("README.md", "records may be repeated; none is skipped", _KILLED),
    Promise("docs/operations/delivery.md", "records may be repeated; none is skipped", _KILLED),
    Promise(
        "docs/benchmarks-peers.md",
        "For this table it writes the same bytes as relay.",
        ("test_peers.py::test_the_loop_by_hand_writes_what_relay_writes",),
    ),
    Promise(
        "docs/architecture.md",
        "Two runs give the same bytes, and so does a restart from the beginning.",
        (*_SAME_BYTES, *_SAME_AFTER_RESTARTS),
    ),
    Promise(
        "docs/architecture.md",
        "Both engines and the pipeline give the same bytes, losses and counts",
        ("templates/test_routes.py::test_the_same_comes_out",),
    ),
    Promise(
        "docs/architecture.md",
        "A fact that the target cannot represent is never dropped in silence",
        _COUNTED,
    ),
    Promise("docs/backfill.md", "so both write the same bytes: keys, values, headers", _SAME_WITH_SPARK),
    Promise(
        "docs/backfill/resuming.md",
        "A repeat has the `relay.source` and the bytes of the original.",
        ("spark/test_resuming.py::test_a_step_that_is_done_again_leaves_nothing_of_the_first_attempt",),
    ),
    Promise("docs/configuration.md", "relay never shows secrets", _NO_SECRET),
    Promise(
        "docs/operations/changing-rules.md",
        "Nothing that was written before is changed.",
        ("service/test_changed_rules.py::test_rules_apply_from_the_next_record_on",),
    ),
    Promise(
        "docs/operations/tracing.md",
        "Keys, values and error messages are never part of a span.",
        (
            "service/test_tracing.py::test_a_refused_record_marks_its_round",
            "service/test_tracing.py::test_routes_that_hide_values_send_no_text_of_headers",
        ),
    ),
    Promise(
        "docs/operations/tracing.md",
        "If the collector refuses them or does not answer, relay does not wait",
        (
            "service/test_tracing.py::test_a_collector_that_does_not_answer_holds_nothing_up",
            "service/test_tracing.py::test_a_failing_collector_is_logged_once_and_so_is_its_recovery",
        ),
    ),
    Promise("docs/kubernetes.md", "Nothing is lost in any case, only delayed", _OUTAGE),
    Promise(
        "docs/kubernetes.md",
        "The chart has no values for secrets, and refuses secrets in `config`",
        (
            "chart/test_values.py::test_a_secret_in_the_config_map_is_refused_and_not_repeated",
            "chart/test_values.py::test_a_secret_in_a_variable_is_refused_and_not_repeated",
        ),
    ),
    Promise("docs/operations/running.md", "Killing relay (SIGKILL, a crash) loses nothing.", _KILLED),
    Promise("docs/operations/delivery.md", "continues by itself; nothing is lost as long as", _OUTAGE),
    Promise(
        "docs/operations/log-events.md", "Nothing is logged per record, and never a row's values.", _NO_VALUES
    ),
    Promise(
        "docs/operations/monitoring.md",
        "It is read-only, and shows neither secrets nor values of rows.",
        (
            "service/test_http.py::test_nothing_can_be_changed",
            "service/test_status.py::test_about_shows_a_configuration_without_secrets",
            *_NO_VALUES,
        ),
    ),
    Promise(
        "docs/operations/dead-letters.md",
        "`list` never shows keys and values",
        ("cli/test_dead_letters.py::test_list_shows_where_and_why_and_no_values",),
    ),
    Promise(
        "docs/operations/large-messages.md",
        "relay never shows them.",
        (
            "test_storage.py::test_a_secret_with_odd_characters_is_redacted",
            "test_storage.py::test_a_storage_that_fails_is_unavailable_and_secrets_are_redacted",
            "codecs/test_large_messages.py::test_a_location_holds_no_secret",
        ),
    ),
    Promise("docs/operations/dead-letters.md", "the reason as text; never a row's value", _NO_VALUES),
    Promise(
        "docs/protocols.md",
        "Nothing is lost by them, and `strict` lets them pass.",
        ("docs/test_documentation.py::test_strict_refuses_what_would_be_counted",),
    ),
    Promise("SECURITY.md", "Secrets are shown nowhere", _NO_SECRET),
    Promise("SECURITY.md", "no value of a row appears in a log line, an error or the status", _NO_VALUES),
    Promise("SECURITY.md", "cannot control a terminal, inject a line, or grow without bound", _SAFE_TEXT),
    Promise(
        "SECURITY.md",
        "never leads out of the storage",
        (
            "test_storage.py::test_a_name_leads_nowhere_else",
            "test_storage.py::test_an_object_that_is_no_file_is_not_read",
            "test_storage.py::test_a_link_in_the_place_of_an_unfinished_file_is_not_followed",
            "test_storage.py::test_an_object_is_for_its_owner_and_group",
        ),
    ),
    Promise(
        "SECURITY.md",
        "Pages of other sites cannot read it through a visitor's browser",
        (
            "service/test_http.py::test_a_name_that_anybody_could_own_is_refused",
            "service/test_http.py::test_the_page_may_run_its_own_script_and_nothing_else",
            "service/test_http.py::test_a_browser_shows_hostile_names_as_text",
        ),
    ),
    Promise(
        "SECURITY.md",
        "large, slow and many requests are cut off",
        (
            "service/test_http.py::test_requests_and_headers_are_bounded",
            "service/test_http.py::test_slow_clients_keep_nobody_out",
            "service/test_http.py::test_bytes_that_drip_win_no_time",
        ),
    ),
    Promise(
        "SECURITY.md",
        "reads nothing but the request",
        (
            "playground/test_translation.py::test_no_file_is_read_or_written",
            "playground/test_translation.py::test_schemas_come_from_the_request_alone",
            "playground/test_translation.py::test_what_other_packages_answer_is_not_asked",
            "playground/test_server.py::test_nothing_else_is_served",
        ),
    ),
    Promise(
        "SECURITY.md",
        "only its own page can ask it through a visitor's browser",
        (
            "playground/test_server.py::test_pages_of_other_sites_cannot_ask",
            "playground/test_server.py::test_forms_of_other_sites_cannot_ask",
            "playground/test_server.py::test_a_name_that_anybody_could_own_is_refused",
        ),
    ),
    Promise(
        "SECURITY.md",
        "An answer is bounded in size, depth and lifetime",
        (
            "service/test_tokens.py::test_an_answer_has_bounds",
            "service/test_tokens.py::test_a_token_is_not_used_for_ever",
            "test_config_bounds.py::test_a_token_endpoint_that_is_not",
        ),
    ),
    Promise(
        "SECURITY.md",
        "A registry's answer is bounded in size",
        (
            "registry/test_client.py::test_an_answer_without_an_end_is_left",
            "registry/test_client.py::test_redirects_are_not_followed",
            "registry/test_client.py::test_urls_are_checked_before_anything_is_asked",
        ),
    ),
    Promise(
        "SECURITY.md",
        "that turns few bytes into very many values, is refused",
        ("codecs/test_avro.py::test_schemas_that_relay_does_not_read_are_refused",),
    ),
    Promise(
        "SECURITY.md",
        "A record that cannot be read is an error with a code, and a policy decides about it",
        (
            "../relay/testing/contract.py::test_arbitrary_bytes_are_events_or_refused",
            "codecs/test_contract.py::test_captured_messages_cut_and_flipped_are_events_or_refused",
            "codecs/test_contract.py::test_nothing_that_was_refused_or_taken_back_shows_in_what_follows",
            "service/test_odd_records.py::test_a_refused_record_with_such_a_name_goes_to_the_dead_letters",
        ),
    ),
)

_PAGES: Final = (
    "README.md",
    "SECURITY.md",
    "docs/*.md",
    "docs/backfill/*.md",
    "docs/operations/*.md",
    "docs/protocols/*.md",
    "helm/README.md",
)
#: Words by which a sentence promises something that a test can prove.
_PROMISING: Final = re.compile(
    r"lost silently|dropped in silence|never shows?\b|never shown|same bytes|shows neither|shown nowhere|nothing is lost"
    r"|loses nothing|never a row|none is skipped",
    re.IGNORECASE,
)
#: Tables of what `make chaos` has measured: figures, and no promise.
_MEASURED: Final = "nothing lost, nothing twice"
_BLOCK: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_SENTENCE: Final = re.compile(r"(?<=[.:!?]) (?=[A-Z`*#|(])")


@functools.cache
def prose(page: str) -> str:
    """A page without its blocks, in one line."""
    return " ".join(_BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8")).split())


@functools.cache
def functions_of(file: str) -> frozenset[str]:
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    return frozenset(re.findall(r"^ *(?:async )?def (test_\w+)\(", text, re.MULTILINE))


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.sentence[:50])
def test_a_promise_is_made_and_kept(promise: Promise) -> None:
    assert promise.sentence in prose(promise.page)
    assert promise.tests
    for named in promise.tests:
        file, _, test = named.partition("::")
        assert test in functions_of(file), named


def test_every_promise_has_a_test() -> None:
    pages = [path for pattern in _PAGES for path in sorted(Path(ROOT).glob(pattern))]
    for path in pages:
        page = path.relative_to(ROOT).as_posix()
        kept = [promise.sentence for promise in PROMISES if promise.page == page]
        for sentence in _SENTENCE.split(prose(page)):
            if _PROMISING.search(sentence) and _MEASURED not in sentence:
                found = [each for each in kept if each in sentence or sentence in each]
                assert found, f"{page}: {sentence}"
