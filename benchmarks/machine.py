"""What figures depend on, besides the code."""

from __future__ import annotations

import os
import platform
import sysconfig
from importlib.metadata import version
from typing import Any

import msgspec

from relay.io.kernel import engine_name

_PACKAGES = ("relay-cdc", "msgspec", "orjson", "aiokafka")


class Machine(msgspec.Struct, frozen=True):
    """`python`: version and build; `kernel`: what fills templates, "" if nothing does."""

    python: str
    platform: str
    cpus: int | None
    kernel: str
    packages: dict[str, str]


def this_machine() -> Machine:
    """Look at the machine and the interpreter."""
    build = python_build(sysconfig.get_config_vars())
    return Machine(
        f"{platform.python_implementation()} {platform.python_version()} {build}",
        platform.platform(),
        os.cpu_count(),
        engine_name(),
        {name: version(name) for name in _PACKAGES},
    )


def python_build(variables: dict[str, Any]) -> str:
    """Say how the interpreter was built: with profile-guided optimization it is up to a third faster."""
    given = variables.get("CONFIG_ARGS")
    if given is None:
        return "of an unknown build"
    pgo = "with PGO" if "--enable-optimizations" in given else "without PGO"
    return f"built {pgo}" + (" and with LTO" if "--with-lto" in given else "")
