"""What the Dockerfile says, without building it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from image.container import BASE, ROOT

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_all_stages_have_the_same_base() -> None:
    """The virtual environment links to the Python of the base by its absolute path."""
    assert re.findall(r"^FROM (\S+)", TEXT, re.MULTILINE) == ["${BASE}"] * 3
    assert f"ARG BASE={BASE}\n" in TEXT


def test_both_installations_have_the_same_extras() -> None:
    """Or the second one would remove what the first one put into the cached layer."""
    first, second = (set(re.findall(r"--extra (\S+)", line)) for line in re.findall(r"uv sync (.*)", TEXT))
    assert first == second == {"s3", "gcs", "azure"}
    assert first <= set(PROJECT["optional-dependencies"])


def test_the_label_has_the_version_of_the_project() -> None:
    assert f"ARG VERSION={PROJECT['version']}\n" in TEXT


def test_only_named_files_reach_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    copied = {
        name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.MULTILINE) for name in line.split()
    }
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == copied
