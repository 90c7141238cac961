"""Claim-check storage: a folder, fsspec's memory, and what is said when it fails."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path
from typing import Any

import fsspec
import pytest
from support import CANAL, TICDC, record, row_message

from relay import Translator
from relay.io.resolver import Resolver
from relay.io.storage import Storage, storage_problems
from relay.model.errors import ClaimCheckMissing, StorageUnavailable
from relay.model.lookups import ClaimCheck
from relay.model.records import Blob

NAME = "d55ba54b-8b70-4055-9b1a-5a0a902e71b8.json"


@pytest.fixture
def memory() -> Any:
    files = fsspec.filesystem("memory")
    files.store.clear()
    return files


@pytest.mark.parametrize(
    "uri", ["{}", "{}/", "file://{}", "local://{}", "{}/not/yet/there", "{}/odd ?#%41 name"]
)
def test_a_folder_keeps_objects(tmp_path: Path, uri: str) -> None:
    storage, uri = Storage(), uri.format(tmp_path)
    storage.store(Blob(uri, NAME, b"first"))
    storage.store(Blob(uri, NAME, b"second"))
    assert storage.fetch(ClaimCheck(uri, NAME)) == b"second"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [NAME]
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    folder = uri.removeprefix("file://").removeprefix("local://").rstrip("/")
    assert str(file) == f"{folder}/{NAME}"


def test_a_relative_folder_is_below_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Storage().store(Blob("objects", NAME, b"x"))
    assert (tmp_path / "objects" / NAME).read_bytes() == b"x"
    assert Storage().fetch(ClaimCheck("objects", NAME)) == b"x"


def test_another_file_system_keeps_objects(memory: Any) -> None:
    storage = Storage()
    storage.store(Blob("memory://bucket/prefix/", NAME, b"x"))
    assert memory.cat_file(f"/bucket/prefix/{NAME}") == b"x"
    assert storage.fetch(ClaimCheck("memory://bucket/prefix", NAME)) == b"x"


@pytest.mark.parametrize("uri", ["{}", "{}/no/such/folder", "memory://nothing"])
def test_a_missing_object_has_its_own_error(tmp_path: Path, memory: Any, uri: str) -> None:
    with pytest.raises(ClaimCheckMissing, match=NAME) as raised:
        Storage().fetch(ClaimCheck(uri.format(tmp_path), NAME))
    assert (raised.value.code, raised.value.exit_status) == ("service.claim-check-missing", 3)


def test_a_storage_that_fails_is_unavailable_and_secrets_are_redacted(
    monkeypatch: pytest.MonkeyPatch, memory: Any
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("denied to secret")

    monkeypatch.setattr(type(memory), "cat_file", fails)
    monkeypatch.setattr(type(memory), "pipe_file", fails)
    uri = "memory://key:secret@bucket/x"
    with pytest.raises(
        StorageUnavailable, match=r"memory://bucket/x/.* cannot be read: RuntimeError"
    ) as read:
        Storage().fetch(ClaimCheck(uri, NAME))
    with pytest.raises(
        StorageUnavailable, match=r"memory://bucket/x/.* cannot be written: RuntimeError"
    ) as written:
        Storage().store(Blob(uri, NAME, b"x"))
    assert "secret" not in f"{read.value}{written.value}"
    assert (read.value.code, read.value.exit_status) == ("service.storage-unavailable", 3)


def test_a_folder_that_is_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageUnavailable, match=r"Not a directory|File exists"):
        Storage().store(Blob(str(tmp_path / "file"), NAME, b"x"))


def test_an_unfinished_object_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("relay.io.files.os.fsync", full)
    with pytest.raises(StorageUnavailable, match="No space left"):
        Storage().store(Blob(str(tmp_path), NAME, b"x"))
    assert not (tmp_path / NAME).exists()


def test_needs_are_answered_until_there_is_none() -> None:
    message = row_message(
        {"id": "int"}, {"id": "1"}, _tidb={"commitTs": 7, "claimCheckLocation": f"s3://elsewhere/{NAME}"}
    )
    translator = Translator(TICDC, CANAL, {"claim-check-storage-uri": "memory://answers"})
    with pytest.raises(ClaimCheckMissing):
        Resolver().translate(translator, record(message))
    full = row_message({"id": "int", "a": "text"}, {"id": "1", "a": "x"}, _tidb={"commitTs": 7})
    Storage().store(Blob("memory://answers", NAME, record(full).value or b""))
    (produced,) = Resolver().translate(translator, record(message))
    assert b'"a":"x"' in (produced.value or b"")
    (event,) = Resolver().inspect(translator, record(message))
    assert event.source.commit_ts == 7


def test_a_need_says_what_to_do_and_no_secret() -> None:
    need = ClaimCheck("s3://user:secret@bucket/x?access-key=secret", NAME)
    assert str(need) == (
        f"the claim-check object {NAME} is needed: call Resolver().translate(translator, record), which fetches it, "
        "or fetch it, give it to Translator.provide, and call again"
    )
    assert "secret" not in repr(need)
    copied = pickle.loads(pickle.dumps(need))  # noqa: S301 - its own
    assert (copied.storage, copied.name, str(copied)) == (need.storage, NAME, str(need))


# ---------------------------------------------------------------- URIs


@pytest.mark.parametrize("uri", ["/objects", "file:///objects", "memory://x"])
def test_uris_that_are_fine(uri: str) -> None:
    assert storage_problems({"from": uri, "to": uri}) == []


@pytest.mark.parametrize("uri", ["objects", "./objects", "~/objects", "file://objects", "local://objects"])
def test_a_relative_folder_is_only_for_a_source(uri: str) -> None:
    assert storage_problems({"from": uri}) == []
    (problem,) = storage_problems({"to": uri})
    assert str(problem) == (
        "to.option.claim-check-storage-uri: is a relative path, which the readers of the messages cannot open "
        "(give an absolute one, such as /srv/claim-checks)"
    )


@pytest.mark.parametrize(
    ("uri", "message", "hint"),
    [
        ("nosuch://x", "cannot be opened as storage: ValueError", "s3://bucket/prefix"),
        ("memory://x?secret=1", "unknown parameter 1", "known: none"),
        (
            "s4://x?access-key=hidden",
            "cannot be opened as storage",
            "a folder, or for example s3://bucket/prefix",
        ),
        (
            "s3://x?acces-key=hidden",
            "unknown parameter 'acces-key'",
            "access-key, endpoint, region, secret-access-key",
        ),
        ("azure://x?sas=hidden", "unknown parameter 1", "account-key, account-name, sas-token"),
    ],
)
def test_uris_that_are_not(uri: str, message: str, hint: str) -> None:
    (problem,) = storage_problems({"to": uri})
    assert problem.path == "to.option.claim-check-storage-uri"
    assert message in problem.message
    assert hint in problem.hint
    assert "hidden" not in str(problem)


@pytest.mark.parametrize(
    ("uri", "extra"),
    [("s3://b", "s3"), ("gs://b", "gcs"), ("gcs://b", "gcs"), ("azure://b", "azure"), ("az://b", "azure")],
)
def test_packages_that_are_not_installed_are_named(
    monkeypatch: pytest.MonkeyPatch, uri: str, extra: str
) -> None:
    def without(*_: Any, **__: Any) -> None:
        raise ImportError("no s3fs")

    monkeypatch.setattr("fsspec.core.url_to_fs", without)
    (problem,) = storage_problems({"from": uri})
    assert problem.hint == f"pip install '.[{extra}]' in relay's folder"


@pytest.mark.parametrize(
    ("uri", "given", "arguments"),
    [
        (
            "S3://bucket/x?access_key=A&secret-access-key=b%2Bc%2Fd+e&endpoint=http://minio:9000&region=eu-west-1&session-token=t",
            "s3://bucket/x",
            {
                "key": "A",
                "secret": "b+c/d+e",
                "token": "t",
                "endpoint_url": "http://minio:9000",
                "client_kwargs": {"region_name": "eu-west-1"},
            },
        ),
        ("gs://bucket/x?credentials-file=/key.json", "gcs://bucket/x", {"token": "/key.json"}),
        (
            "azblob://box/x?account-name=a&account-key=b",
            "az://box/x",
            {"account_name": "a", "account_key": "b"},
        ),
        ("abfs://box@account/x?sas-token=a", "abfs://box@account/x", {"sas_token": "a"}),
    ],
)
def test_ticdcs_parameters_are_understood(
    monkeypatch: pytest.MonkeyPatch, uri: str, given: str, arguments: dict[str, Any]
) -> None:
    asked = []

    def url_to_fs(url: str, **options: Any) -> tuple[Any, str]:
        asked.append((url, options))
        return fsspec.filesystem("memory"), "folder"

    monkeypatch.setattr("fsspec.core.url_to_fs", url_to_fs)
    assert storage_problems({"from": uri}) == []
    assert asked == [(given, arguments)]


# ---------------------------------------------------------------- what others may have put there


def test_an_object_is_for_its_owner_and_group(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Storage().store(Blob(str(tmp_path), NAME, b"rows"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o640


def test_two_writers_of_one_object_do_not_share_an_unfinished_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers have all the same process number."""
    seen: list[set[str]] = []
    fsync = os.fsync

    def look(descriptor: int) -> None:
        seen.append({path.name for path in tmp_path.iterdir()})
        if len(seen) == 1:  # while the first is under way
            Storage().store(Blob(str(tmp_path), NAME, b"second"))
        fsync(descriptor)

    monkeypatch.setattr("relay.io.files.os.fsync", look)
    Storage().store(Blob(str(tmp_path), NAME, b"first"))
    assert len(seen[1]) == 2
    assert (tmp_path / NAME).read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_link_in_the_place_of_an_unfinished_file_is_not_followed(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "objects"
    folder.mkdir()
    victim.write_bytes(b"mine")
    (folder / f"{NAME}.{os.getpid()}").symlink_to(victim)
    (folder / NAME).symlink_to(victim)
    Storage().store(Blob(str(folder), NAME, b"rows"))
    assert victim.read_bytes() == b"mine"
    assert not (folder / NAME).is_symlink()


def test_a_failure_leaves_nothing_unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("relay.io.files.os.fsync", full)
    with pytest.raises(StorageUnavailable, match="No space left"):
        Storage().store(Blob(str(tmp_path), NAME, b"x"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["pipe", "link", "link to a pipe", "folder"])
def test_an_object_that_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "objects"
    folder.mkdir()
    secret.write_bytes(b"secret")
    os.mkfifo(tmp_path / "pipe")
    match kind:
        case "pipe":
            os.mkfifo(folder / NAME)
        case "link":
            (folder / NAME).symlink_to(secret)
        case "link to a pipe":
            (folder / NAME).symlink_to(tmp_path / "pipe")
        case _:
            (folder / NAME).mkdir()
    with pytest.raises(StorageUnavailable, match=NAME):
        Storage().fetch(ClaimCheck(str(folder), NAME))


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Storage().store(Blob(str(tmp_path / "link"), NAME, b"rows"))
    assert Storage().fetch(ClaimCheck(f"file://{tmp_path}/link", NAME)) == b"rows"


@pytest.mark.parametrize("name", ["../x.json", "/etc/passwd", "a/b", "..", ".", "", "a\0b"])
def test_a_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "objects"
    folder.mkdir()
    (tmp_path / "x.json").write_bytes(b"secret")
    with pytest.raises((StorageUnavailable, ClaimCheckMissing)):
        Storage().fetch(ClaimCheck(str(folder), name))
    with pytest.raises(StorageUnavailable):
        Storage().store(Blob(str(folder), name, b"x"))
    assert (tmp_path / "x.json").read_bytes() == b"secret"


@pytest.mark.parametrize(
    "uri",
    [
        "s3://K:a/HIDDEN@b",
        "s3://K:HID/DEN@b/prefix",
        "s3://K:HID?DEN@b",
        "s3://K:HID@DEN@b",
        "s3://b/p?access-key=K&secret-access-key=HID&DEN",
        "s3://b/p?access-key=K&secret-access-key=HID&DEN=",
        "s3://b/p?access-key=K&secret-access-key=HID&DEN=x&region=y",
        "gcs://b/p?HIDDEN",
        "azure://b/p?account-key=HID&DEN==",
    ],
)
def test_a_secret_with_odd_characters_is_redacted(uri: str) -> None:
    (problem,) = storage_problems({"to": uri})
    assert not any(secret in str(problem) for secret in ("HIDDEN", "HID", "DEN"))
    assert "%26" in problem.hint
