"""How `make test` hands out tests to the workers of pytest-xdist: by files, or one by one.

`--dist loadgroup` would need no code, but it ignores groups: pytest-xdist 3.8 marks tests with them in a member
that pytest 9.2 does not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # pytest-xdist has no types

#: Folders whose tests share programs that are expensive to start. One worker takes all of them; the others help
#: when they have nothing else to do.
ONE_WORKER: Final = ("spark", "readers")
#: Folders whose tests take minutes and share a broker at most.
SLOW_FOLDERS: Final = ("service", "cli", "faults")
#: Other files whose tests take a minute or more together, and share nothing expensive.
LONG_FILES: Final = (
    "test_output_digests.py",
    "test_nothing_lost.py",
    "codecs/test_contract.py",
    "templates/test_routes.py",
)
#: Files of the slow folders whose tests share a broker of their own.
ONE_BROKER: Final = ("service/test_hanging_transactions.py",)


def _path(test: str) -> str:
    return test.partition("::")[0].removeprefix("tests/")


def _folder(test: str) -> str:
    return _path(test).partition("/")[0]


def unit_of(test: str) -> str:
    """Return the unit in which a test is handed out: its file, or the test alone."""
    path = _path(test)
    is_alone = path in LONG_FILES or (_folder(test) in SLOW_FOLDERS and path not in ONE_BROKER)
    return test if is_alone else path


def ordered(tests: Sequence[str]) -> list[int]:
    """Return the indexes of tests in the order in which they are handed out.

    The folders of `ONE_WORKER` come first. Next are the slow ones, so that none of them runs alone at the
    end; they are mixed, because one waits for brokers while another needs the processor. Last are the long
    files, then all others.
    """
    groups: dict[str, list[int]] = {name: [] for name in (*ONE_WORKER, *SLOW_FOLDERS, "long", "others")}
    for at, test in enumerate(tests):
        folder = _folder(test)
        groups[folder if folder in groups else "long" if _path(test) in LONG_FILES else "others"].append(at)
    slow = [groups[name] for name in SLOW_FOLDERS]
    mixed = sorted((number / len(found), at) for found in slow for number, at in enumerate(found))
    first = [at for name in ONE_WORKER for at in groups[name]]
    return [*first, *(at for _, at in mixed), *groups["long"], *groups["others"]]


class ByFiles(LoadScopeScheduling):  # type: ignore[misc]  # as above
    """Hands out units in the order of their tests."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._owners: dict[str, Any] = {}

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        units = (unit for unit in self.workqueue if self._owners.get(_folder(unit), node) is node)
        unit = next(units, next(iter(self.workqueue)))
        if _folder(unit) in ONE_WORKER:
            self._owners.setdefault(_folder(unit), node)
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)
