"""Choose the engine that fills templates by `RELAY_KERNEL`: the native kernel, verified or not, or none.

The kernel is the package `relay-cdc-kernel`, which `pip install ./kernel` in relay's folder builds. No other
module of relay imports it. With and without an engine relay writes the same bytes.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from relay.model.errors import ConfigError, Problem
from relay.templates.batches import BatchTypes

if TYPE_CHECKING:
    from relay.core.translator import Translator
    from relay.templates.engine import Engine

VARIABLE: Final = "RELAY_KERNEL"
#: Version of the interface between the kernel and `relay.templates`; `INTERFACE` in `kernel/src/lib.rs` is
#: the same.
INTERFACE: Final = 13
_MODULE: Final = "relay_cdc_kernel"


class KernelMode(Enum):
    """The engine that fills templates."""

    #: The kernel, if it is installed.
    AUTO = "auto"
    #: Nothing: every record takes the slow path.
    OFF = "off"
    #: The kernel, which must be installed; each record also takes the slow path, and the run ends if the two
    #: differ.
    SHADOW = "shadow"

    @property
    def is_shadow(self) -> bool:
        """Return whether the engine's output is compared with the pipeline's."""
        return self is KernelMode.SHADOW


class Installed(NamedTuple):
    """The installed kernel.

    `version`: None if there is none. `problem`: why it cannot be used, to be reported once; "" for none.
    `batches`: its classes of record batches.
    """

    engine: type[Engine] | None = None
    version: str | None = None
    problem: str = ""
    batches: BatchTypes | None = None

    @property
    def text(self) -> str:
        """Return the installed kernel as text."""
        if self.problem:
            return self.problem
        if self.version is None:
            return "relay-cdc-kernel is not installed: relay works without it, but more slowly"
        return f"relay-cdc-kernel {self.version}"


def mode(environment: Mapping[str, str] = os.environ) -> KernelMode:
    """Read `RELAY_KERNEL`; `auto` if it is not set. Raises ConfigError for an unknown mode."""
    given = environment.get(VARIABLE, "").strip() or KernelMode.AUTO.value
    try:
        return KernelMode(given)
    except ValueError:
        modes = ", ".join(each.value for each in KernelMode)
        raise ConfigError(
            [Problem(VARIABLE, f"{given!r} is not a mode of the kernel", f"it is one of {modes}")]
        ) from None


def engine(chosen: KernelMode) -> type[Engine] | None:
    """Return the engine of a mode; None where every record takes the slow path.

    Raises ConfigError for `shadow` without a kernel: there is nothing to compare.
    """
    if chosen is KernelMode.OFF:
        return None
    found = installed()
    if found.engine is None and chosen.is_shadow:
        hint = f"install it (`pip install ./kernel` in relay's folder), or set {VARIABLE} to auto"
        raise ConfigError([Problem(VARIABLE, f"shadow needs the native kernel: {found.text}", hint)])
    return found.engine


def batch_types() -> BatchTypes | None:
    """Return the classes of record batches of `RELAY_KERNEL`; None where aiokafka reads and writes batches.

    Raises ConfigError for an unknown mode.
    """
    return installed().batches if mode() is KernelMode.AUTO else None


def translator_class() -> Callable[..., Translator]:
    """Return the factory of translators with the engine of `RELAY_KERNEL`. Raises ConfigError."""
    from relay.core.translator import Translator  # noqa: PLC0415 - `relay --version` needs no translator
    from relay.core.verification import ShadowTranslator  # noqa: PLC0415 - as above

    chosen = mode()
    made = ShadowTranslator if chosen.is_shadow else Translator
    return partial(made, engine=engine(chosen))


def engine_name() -> str:
    """Return the engine chosen by `RELAY_KERNEL`, as text: `kernel 0.1.0`; "" for no engine."""
    chosen = mode()
    if engine(chosen) is None:
        return ""
    name = f"kernel {installed().version}"
    return f"{name}, {chosen.value}" if chosen.is_shadow else name


@cache
def installed() -> Installed:
    """Look for the kernel, once in a process."""
    try:
        module = importlib.import_module(_MODULE)
    except ModuleNotFoundError:
        return Installed()
    except ImportError as error:
        return Installed(problem=f"relay-cdc-kernel cannot be loaded and is not used: {error}")
    return _usable(module)


def _usable(module: ModuleType) -> Installed:
    version, interface = str(module.__version__), module.INTERFACE
    if interface != INTERFACE:
        problem = f"it has interface {interface}, and this relay needs {INTERFACE}"
        hint = "pip install ./kernel in relay's folder gives the one of the same version"
        return Installed(None, version, f"relay-cdc-kernel {version} is not used: {problem} ({hint})")
    batches = BatchTypes(module.SourceBatch, module.TargetBatch)
    return Installed(cast("type[Engine]", module.Kernel), version, batches=batches)
