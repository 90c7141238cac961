"""The engine in Python: the specification of the kernel, and its stand-in where there is none.

It is written to be read. What the kernel does faster, it does in the same way: the same messages fit, and
give the same bytes.
"""

from reference_engine.interpreter import Interpreter

__all__ = ["Interpreter"]
