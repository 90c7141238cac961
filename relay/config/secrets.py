"""Find the secrets of a configuration, and mask them in texts.

Messages do not quote values that may be secret. This is a second line of defense: if one does after all, such
as in a library's text, the secret itself is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from relay.model.errors import Problem
from relay.text.redaction import HIDDEN

#: Keys, variables and parameters whose values are secret; a file's name is not.
_SECRET = re.compile(
    r"(password|secret|(access|account|hash)[-_]key|(sas|session|bearer)[-_]token)$", re.IGNORECASE
)
_PARAMETER = re.compile(r"[?&]([\w-]+)=([^&]+)")
_SECRET_PARAMETER = re.compile(r"password|passwd|secret|token|credential|signature|key", re.IGNORECASE)
#: The password of an address, such as that of a storage.
_LOGIN = re.compile(r"://[^/?#@:\s]*:([^/?#@\s]+)@")
#: Shorter ones would be found in ordinary words.
_SHORTEST = 4


def secrets_in(data: Mapping[str, object], environment: Mapping[str, str], flags: Sequence[str]) -> set[str]:
    """Return the secrets of a file's tables, of the environment and of flags (`table.key=value`)."""
    given = {flag.partition("=")[0]: flag.partition("=")[2].strip("\"'") for flag in flags}
    relays = {name: value for name, value in environment.items() if name.startswith("RELAY_")}
    return {secret for secret in _secrets({**data, **relays, **given}) if len(secret) >= _SHORTEST}


def _secrets(table: Mapping[str, object]) -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _secrets(value)
        elif _SECRET.search(name) and isinstance(value, str | int | float):
            yield str(value)
        elif isinstance(value, str):
            yield from _LOGIN.findall(value)
            yield from (
                text for parameter, text in _PARAMETER.findall(value) if _SECRET_PARAMETER.search(parameter)
            )


def without_secrets(problems: Sequence[Problem], secrets: set[str]) -> list[Problem]:
    """Return the problems with secrets masked in their texts."""
    if not secrets:
        return list(problems)
    pattern = re.compile("|".join(re.escape(secret) for secret in sorted(secrets, key=len, reverse=True)))
    return [Problem(*(pattern.sub(HIDDEN, text) for text in problem)) for problem in problems]
