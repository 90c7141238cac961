"""A kernel that is wrong on purpose, for processes that find this folder first (`PYTHONPATH`).

It gives another value for every message that fits a template, but not while relay asks whether the template is
right. With `RELAY_TEST_PANIC` it panics in its place, as PyO3 does.
"""

from __future__ import annotations

import os
from typing import Final

from reference_engine import Interpreter
from reference_engine.batches import SourceRows, TargetRows

from relay.io import kernel
from relay.templates.engine import Translation
from relay.templates.ops import Template

__version__: Final = "0.0.0"
#: Not used where records are compared.
SourceBatch, TargetBatch = SourceRows, TargetRows
INTERFACE: Final = kernel.INTERFACE
PANICS: Final = "RELAY_TEST_PANIC"


class PanicException(BaseException):
    """As `pyo3_runtime.PanicException`, it is no Exception."""


class Kernel(Interpreter):
    """An interpreter that is wrong."""

    _is_asked = False

    def add(self, template: Template) -> int:
        self._is_asked = True
        return super().add(template)

    def translate(
        self, key: bytes | None, value: bytes | None, offset: int, time_ms: int, mark_prefix: bytes
    ) -> Translation | None:
        found = super().translate(key, value, offset, time_ms, mark_prefix)
        if found is None or self._is_asked:
            self._is_asked = False
            return found
        if os.environ.get(PANICS):
            raise PanicException("on purpose")
        return found[0], found[1], b"{}", *found[3:]
