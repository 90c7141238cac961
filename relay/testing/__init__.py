"""The codec contract as a test suite for other packages. Provisional: it grows with relay.

    from relay.testing import CodecContract

    class TestMyProtocol(CodecContract):
        codec = CODEC
        samples = [ConsumerRecord("t", 0, 0, 0, None, b"a message as its producer printed it")]

pytest collects the tests of such a class; it needs pytest and hypothesis (`pip install relay-cdc[testing]`).
The package must be installed with its entry point, because relay looks it up there.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("relay.testing.contract", "relay.testing.wires")

from relay.testing.contract import CodecContract  # noqa: E402 - asserts of the import above are rewritten
from relay.testing.wires import Differences  # noqa: E402 - as above

__all__ = ["CodecContract", "Differences"]
