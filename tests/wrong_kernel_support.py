"""The environment of a process whose kernel is wrong on purpose."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from relay.io.kernel import VARIABLE, KernelMode

FOLDER: Final = Path(__file__).parent / "wrong_kernel"


def wrong_kernel(mode: KernelMode = KernelMode.SHADOW, **others: str) -> dict[str, str]:
    """This environment, with that kernel, in a mode."""
    # The wrong kernel is made of the reference engine, which is in the folder of the tests.
    folders = [str(FOLDER), str(FOLDER.parent), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(folders).rstrip(os.pathsep)
    return {**os.environ, "PYTHONPATH": path, VARIABLE: mode.value, **others}
