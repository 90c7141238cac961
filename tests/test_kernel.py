"""Which engine `RELAY_KERNEL` chooses, what is said of the kernel, and numbers that stand in two places."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from engine_support import needs_kernel
from reference_engine import Interpreter
from reference_engine.batches import SourceRows, TargetRows

from relay.io import kernel
from relay.io.kernel import INTERFACE, KernelMode
from relay.model.errors import ConfigError
from relay.templates.engine import CREDIT_PER_MATCH, MAX_CREDIT, MAX_TRIED, TRY_INTERVAL
from relay.templates.ops import MOST_REWRITTEN

ROOT = Path(__file__).parents[1]
NAME = "relay_cdc_kernel"


class Native(Interpreter):
    """Stands for the kernel's engine."""


@pytest.fixture(autouse=True)
def look_again() -> Iterator[None]:
    """The kernel is looked for once in a process, and here for each test."""
    kernel.installed.cache_clear()
    yield
    kernel.installed.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, interface: int = INTERFACE) -> None:
    module: Any = ModuleType(NAME)
    module.__version__, module.INTERFACE, module.Kernel = "9.9", interface, Native
    module.SourceBatch, module.TargetBatch = SourceRows, TargetRows
    monkeypatch.setitem(sys.modules, NAME, module)


def remove(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, NAME, raising=False)


def test_modes() -> None:
    assert kernel.mode({}) is KernelMode.AUTO
    assert kernel.mode({"RELAY_KERNEL": ""}) is KernelMode.AUTO
    assert [kernel.mode({"RELAY_KERNEL": name}) for name in ("auto", "off", "shadow")] == list(KernelMode)
    assert [mode.is_shadow for mode in KernelMode] == [False, False, True]


def test_a_mode_that_there_is_not() -> None:
    with pytest.raises(
        ConfigError, match=r"RELAY_KERNEL: 'on' is not a mode of the kernel \(it is one of auto, off"
    ):
        kernel.mode({"RELAY_KERNEL": "on"})


def test_engines_with_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    engines = {mode: kernel.engine(mode) for mode in KernelMode}
    assert engines == {KernelMode.AUTO: Native, KernelMode.OFF: None, KernelMode.SHADOW: Native}
    assert kernel.installed().text == "relay-cdc-kernel 9.9"


def test_engines_without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    remove(monkeypatch)
    assert kernel.installed() == kernel.Installed()
    assert [kernel.engine(mode) for mode in (KernelMode.AUTO, KernelMode.OFF)] == [None, None]
    with pytest.raises(
        ConfigError, match=r"RELAY_KERNEL: shadow needs the native kernel: .* is not installed"
    ):
        kernel.engine(KernelMode.SHADOW)
    assert "is not installed" in kernel.installed().text


def test_a_kernel_of_another_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, INTERFACE + 1)
    assert kernel.engine(KernelMode.AUTO) is None
    assert kernel.installed().version == "9.9"
    assert kernel.installed().text.startswith(
        f"relay-cdc-kernel 9.9 is not used: it has interface {INTERFACE + 1}, and this relay needs {INTERFACE} ("
    )


def test_a_kernel_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.py").write_text("raise ImportError('GLIBC_2.99 is missing')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    assert kernel.engine(KernelMode.AUTO) is None
    assert kernel.installed().text == (
        "relay-cdc-kernel cannot be loaded and is not used: GLIBC_2.99 is missing"
    )


@needs_kernel
def test_the_kernel_is_loaded() -> None:
    assert kernel.installed().problem == ""
    assert kernel.engine(KernelMode.AUTO) is not None


def project(folder: str) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = tomllib.loads(
        (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    )
    return found["project"]


def test_relay_and_its_kernel_have_one_version() -> None:
    relay, native = project("."), project("kernel")
    crate = tomllib.loads((ROOT / "kernel/Cargo.toml").read_text(encoding="utf-8"))["package"]
    assert relay["version"] == native["version"] == crate["version"]
    assert relay["optional-dependencies"]["fast"] == [f"{native['name']}=={relay['version']}"]


def test_relay_and_its_kernel_have_the_same_numbers() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "kernel/src").glob("*.rs"))
    expected = {
        "INTERFACE": INTERFACE,
        "MAX_TRIED": MAX_TRIED,
        "CREDIT_PER_MATCH": CREDIT_PER_MATCH,
        "MAX_CREDIT": MAX_CREDIT,
        "TRY_INTERVAL": TRY_INTERVAL,
        "MOST_REWRITTEN": MOST_REWRITTEN,
    }
    found = dict(re.findall(rf"const ({'|'.join(expected)}): \w+ = (\d+);", sources))
    assert found == {name: str(number) for name, number in expected.items()}


def test_batches_are_the_kernels_where_records_need_not_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    monkeypatch.delenv("RELAY_KERNEL", raising=False)
    found = kernel.batch_types()
    assert found is not None
    assert found.target.__name__ == TargetRows.__name__
    for mode in ("off", "shadow"):
        monkeypatch.setenv("RELAY_KERNEL", mode)
        assert kernel.batch_types() is None
    monkeypatch.delenv("RELAY_KERNEL")
    kernel.installed.cache_clear()
    remove(monkeypatch)
    assert kernel.batch_types() is None
