"""How `make test` hands out tests to the workers of pytest-xdist: by files, or one by one.

`--dist loadgroup` would need no code, but it ignores groups: pytest-xdist 3.8 marks tests with them in a member
that pytest 9.2 does not read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


@functools.cache
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
    files, then all others. Workers take what waits and what needs the processor by turns (`ByFiles`).
    """
    groups: dict[str, list[int]] = {name: [] for name in (*ONE_WORKER, *SLOW_FOLDERS, "long", "others")}
    for at, test in enumerate(tests):
        folder = _folder(test)
        groups[folder if folder in groups else "long" if _path(test) in LONG_FILES else "others"].append(at)
    slow = [groups[name] for name in SLOW_FOLDERS]
    mixed = sorted((number / len(found), at) for found in slow for number, at in enumerate(found))
    first = [at for name in ONE_WORKER for at in groups[name]]
    return [*first, *(at for _, at in mixed), *groups["long"], *groups["others"]]


@functools.cache
def waits(unit: str) -> bool:
    """Return whether the tests of a unit mostly wait, for brokers and other processes."""
    return _folder(unit) in SLOW_FOLDERS


def units_for(
    worker: object, queue: Iterable[str], owners: Mapping[str, object], latest: Mapping[Any, str]
) -> Iterator[str]:
    """Yield the units that a worker may get: those of the wanted kind, the others, and all.

    `owners`: the workers that have begun with a folder of `ONE_WORKER`. `latest`: the unit that each worker got
    last.
    """
    others_work = any(not waits(unit) for other, unit in latest.items() if other is not worker)
    for is_wanted in (True, False):
        for unit in queue:
            is_kind = waits(unit) is others_work
            if is_kind is is_wanted and owners.get(_folder(unit), worker) is worker:
                yield unit
    yield from queue


class ByFiles(LoadScopeScheduling):  # type: ignore[misc]  # as above
    """Hands out units in the order of their tests, by turns those that wait and those that need the processor:
    while one worker has the latter, the others wait, so that none of the processor's time is left unused.
    """

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._owners: dict[str, Any] = {}
        #: The unit that each worker got last.
        self._latest: dict[Any, str] = {}
        #: Where tests are in the workers' collections, which are the same.
        self._at: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """As in the base class, which looks at all that a worker has done each time."""
        test = self.registered_collections[node][item_index]
        scope = self._split_scope(test)
        unit = self.assigned_work[node][scope]
        unit[test] = True
        if all(unit.values()):
            del self.assigned_work[node][scope]
        self._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        scope = next(units_for(node, self.workqueue, self._owners, self._latest))
        if _folder(scope) in ONE_WORKER:
            self._owners.setdefault(_folder(scope), node)
        self._latest[node] = scope
        self.assigned_work.setdefault(node, {})[scope] = unit = self.workqueue.pop(scope)
        if not self._at:
            self._at = {test: at for at, test in enumerate(self.registered_collections[node])}
        node.send_runtest_some([self._at[test] for test, is_done in unit.items() if not is_done])

    def remove_node(self, node: Any) -> str | None:
        """Forget what a worker had that is gone, too."""
        self._latest.pop(node, None)
        self._owners = {folder: owner for folder, owner in self._owners.items() if owner is not node}
        found: str | None = super().remove_node(node)
        return found
