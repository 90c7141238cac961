"""Names of command options for messages: the core and shared modules use internal keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from relay.model.errors import Problem


class Spelling(msgspec.Struct, frozen=True):
    """A command's names for its input, the input's protocol, and related options."""

    input: str = "INPUT"
    protocol: str = "--from"
    option: str = "--from-option"
    registry: str = "--from-registry"
    dump: str = "--schema-dump"
    dump_database: str = "--dump-database"
    dump_as_of: str = "--dump-as-of"

    def of_problems(self, problems: Iterable[Problem]) -> list[Problem]:
        """Return problems of the core's settings as problems of the command's options."""
        return [problem._replace(path=self._of_path(problem.path)) for problem in problems]

    def _of_path(self, path: str) -> str:
        side, option, name = path.partition(".option.")
        if option:
            return f"{self.option if side == 'from' else TARGET_OPTION} {name}"
        rules, _, rest = path.partition(".")
        if rules in _RULES and rest:
            number, _, name = rest.partition(".")
            return f"{_RULES[rules]}, rule {int(number) + 1}, {name}"
        return self.protocol if path == "from" else _OTHERS.get(path, path)


#: Options with rules, by the keys of the core.
_RULES: Final = {"columns": "--column", "rows": "--where", "tables": "--table"}
TARGET_OPTION: Final = "--to-option"
TARGET_REGISTRY: Final = "--to-registry"
#: Options that have one spelling, by the keys of the core.
_OTHERS: Final = {
    "to": "--to",
    "target.topic": "--topic",
    "target.partition_by": "--partition-by",
    "include_tables": "--include-table",
    "exclude_tables": "--exclude-table",
    "include_events": "--include-event",
    "exclude_events": "--exclude-event",
    "deduplicate": "--deduplicate",
}

USUAL: Final = Spelling()
#: Of `relay diff`.
SIDES: Final = tuple(
    Spelling(name.upper(), f"--{name}", f"--{name}-option", f"--{name}-registry") for name in "ab"
)
#: Of `relay schema-history import`.
IMPORT: Final = Spelling(dump="--sql", dump_database="--database", dump_as_of="--as-of")
