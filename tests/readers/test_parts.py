"""Parts that cannot be had, or are not what is meant, leave nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from readers import parts


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELAY_CACHE_DIR", str(tmp_path))
    return tmp_path / "readers"


class _Unreachable:
    def __init__(self, **_: Any) -> None: ...

    def project(self, *_: str) -> Any:
        raise OSError("no route to host")


def test_without_a_network(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    monkeypatch.setattr(parts, "MavenContext", _Unreachable)
    with pytest.raises(parts.PartMissing, match=r"org\.eclipse\.jdt:ecj:.* no route to host"):
        parts.jars("compiler")
    assert [path.suffix for path in empty_cache.iterdir()] == [".lock"]


class _Another:
    """A repository whose file has other bytes."""

    def __init__(self, repo_cache: Path) -> None:
        self._file = repo_cache / "ecj.jar"
        self._file.write_bytes(b"another")

    def __getattr__(self, _: str) -> Any:
        return lambda *_: self

    def resolve(self) -> Path:
        return self._file


def test_a_file_that_is_not_the_one_that_is_meant(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    monkeypatch.setattr(parts, "MavenContext", _Another)
    with pytest.raises(parts.PartMissing, match=r"ecj\.jar is not the file"):
        parts.jars("compiler")
    assert [path.suffix for path in empty_cache.iterdir()] == [".lock"]


def test_a_machine_without_binaries() -> None:
    with pytest.raises(parts.PartMissing, match="postgresql-plan9-vax"):
        parts.jars("postgresql-plan9-vax")
