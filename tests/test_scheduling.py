"""Tests of a file meet on one worker, and those that share expensive programs, too."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from scheduling import LONG_FILES, ONE_WORKER, SLOW_FOLDERS, ordered, unit_of, units_for

TESTS = Path(__file__).parent
_TEST = "import pytest\n@pytest.mark.parametrize('at', range(4))\ndef test_it(at): pass\n"


def test_all_that_is_named_is_there() -> None:
    assert all((TESTS / name).is_dir() for name in (*ONE_WORKER, *SLOW_FOLDERS))
    assert all((TESTS / name).is_file() for name in LONG_FILES)


def test_units() -> None:
    assert unit_of("tests/spark/test_files.py::test_a[::x@y]") == "spark/test_files.py"
    assert unit_of("tests/test_shown.py::test_a") == "test_shown.py"
    assert unit_of("tests/service/test_loop.py::test_a") == "tests/service/test_loop.py::test_a"
    assert unit_of(f"tests/{LONG_FILES[0]}::test_a[1]") == f"tests/{LONG_FILES[0]}::test_a[1]"


def test_the_order() -> None:
    files = ["cli/a", "cli/b", "codecs/a", LONG_FILES[0], "service/a", "service/b", "spark/a", "test_a"]
    order = [files[at] for at in ordered([f"tests/{file}::test" for file in files])]
    assert order == [
        *("spark/a", "cli/a", "service/a", "cli/b", "service/b"),
        *(LONG_FILES[0], "codecs/a", "test_a"),
    ]


def test_one_worker_needs_the_processor_while_the_others_wait() -> None:
    queue = ["spark/a", "tests/service/a", "codecs/a"]
    assert list(units_for("first", queue, {}, {}))[:3] == ["spark/a", "codecs/a", "tests/service/a"]
    owners, latest = {"spark": "first"}, {"first": "spark/a"}
    # What another worker has begun is left to it, as long as there is something else.
    assert list(units_for("second", queue, owners, latest))[:3] == ["tests/service/a", "codecs/a", "spark/a"]
    latest["second"] = "tests/service/a"
    assert next(units_for("first", queue, owners, latest)) == "spark/a"


def test_a_file_has_one_worker(tmp_path: Path) -> None:
    """With the installed versions of pytest and pytest-xdist; the workers take turns at tests handed out singly."""
    for file in (
        "spark/test_a.py",
        "spark/test_b.py",
        "codecs/test_c.py",
        "codecs/test_d.py",
        "cli/test_e.py",
    ):
        path = tmp_path / "tests" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_TEST)
    hook = "def pytest_xdist_make_scheduler(config, log): return ByFiles(config, log)"
    (tmp_path / "conftest.py").write_text(f"from scheduling import ByFiles\n{hook}\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = ["-v", "-n", "2", "--dist", "loadgroup", "--import-mode=importlib", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(TESTS)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    workers: dict[str, set[str]] = defaultdict(set)
    for worker, path in re.findall(r"\[(gw\d)\].* PASSED tests/(\S+?)::", ran.stdout):
        workers[path].add(worker)
    assert len(workers) == 5
    assert {len(workers[path]) for path in workers if not path.startswith("cli/")} == {1}
