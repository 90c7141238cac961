"""Escaping and redaction of external texts for errors, logs, status pages, JSON and terminals.

Names of columns, tables and topics, broker responses and texts of libraries are not under relay's control.
They may contain terminal control characters, characters that reverse the direction of text, or unpaired
surrogates, and may be of any length. They are escaped where they are printed, logged or served, not where an
error is raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

#: Maximum characters of a text in an error or a log line.
LONGEST: Final = 2_000
#: Characters that `plain_json` may have to escape: all but printable ASCII and the line feeds between
#: members.
_BEYOND_ASCII: Final = re.compile(r"[^\x20-\x7e\n]")
#: Parts of an option's name that mark its value as secret.
_SECRET_WORDS: Final = re.compile(
    r"password|passwd|secret|token|credential|access-key|api-key", re.IGNORECASE
)
HIDDEN: Final = "(not shown)"


def plural(count: int, noun: str) -> str:
    """Format a count with a regular noun: `1 partition`, `2 partitions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def first_of(names: Sequence[str], most: int) -> str:
    """List the first `most` names, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def printable(text: str, keep: str = "", longest: int | None = LONGEST) -> str:
    """Escape unprintable characters, except those in `keep`: control characters (C0, C1), characters that
    change the direction of text, unpaired surrogates.

    A text of more than `longest` characters loses its middle, because errors state their cause at the end.
    """
    if longest is None:
        return _escaped(text, keep)
    if len(text) <= longest:
        shown = _escaped(text, keep)
        if len(shown) <= longest:
            return shown
    first, mark, last = _parts(text, longest)
    return _escaped(text[:first], keep)[:first] + mark + _escaped(text[-last:], keep)[-last:]


def shortened(text: str, longest: int) -> str:
    """Remove the middle of a text with more than `longest` characters; nothing is escaped."""
    if len(text) <= longest:
        return text
    first, mark, last = _parts(text, longest)
    return text[:first] + mark + text[-last:]


def _parts(text: str, longest: int) -> tuple[int, str, int]:
    """Return the lengths of the beginning and the end of a shortened text, with the mark between them."""
    mark = f"… ({len(text)} characters) …"
    kept = longest - len(mark)
    return kept - kept // 3, mark, kept // 3


def _escaped(text: str, keep: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else repr(char)[1:-1] for char in text)


def to_json(value: object, default: Callable[[Any], Any] | None = None, option: int = 0) -> bytes:
    """Serialize to JSON that is safe on terminals: unprintable characters are escaped, as JSON allows.

    Unpaired surrogates, which UTF-8 cannot represent, become text such as `\\ud800`; integers may be of any
    length. Otherwise like `orjson.dumps`.
    """
    try:
        data = orjson.dumps(value, default, option)
    except orjson.JSONEncodeError:
        whole = None if default is None else lambda other: _whole(default(other))
        data = orjson.dumps(_whole(value), whole, option)
    return plain_json(data)


def plain_json(data: bytes) -> bytes:
    """Escape unprintable characters in JSON; its value stays the same."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _BEYOND_ASCII.sub(_json_escape, data.decode()).encode()


def _json_escape(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f")


def _whole(value: object) -> object:
    """Replace values that orjson refuses: unpaired surrogates in texts, and integers beyond 64 bits."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return orjson.Fragment(str(value).encode())
    if isinstance(value, Mapping):
        return {_whole(name): _whole(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(member) for member in value]
    return value


def shown_uri(uri: str) -> str:
    """Return a URI without parameters, users and passwords. The path stays unchanged.

    Passwords are not always escaped correctly: one with a slash ends at a false host. A text that does not
    have the form of an address is hidden entirely.
    """
    scheme, mark, rest = uri.rstrip("/").partition("://")
    if not mark:
        return uri.rstrip("/") if uri[:1] in {"/", "."} or not _LOGIN(uri) else HIDDEN
    if scheme.lower() in _FOLDERS:
        return f"{scheme}{mark}{rest.partition('?')[0].rstrip('/')}"
    if not is_plain_address(uri):
        return f"{scheme}{mark}{HIDDEN}"
    authority, slash, path = rest.partition("?")[0].rstrip("/").partition("/")
    user, _, host = authority.rpartition("@")
    if scheme.lower() not in _CONTAINERS or ":" in user:
        authority = host
    return f"{scheme}{mark}{authority}{slash}{path}"


def is_plain_address(uri: str) -> bool:
    """Return whether a URI with a scheme consists of a host, optionally with a port and a login, and a path,
    so that a password can occur only in the login or the parameters.
    """
    rest = uri.partition("://")[2]
    authority = _AUTHORITY_END.split(rest, maxsplit=1)[0]
    if not _AUTHORITY(authority):
        return False
    # After a login, another @ means that the password contains one, or contains the apparent path.
    return ":" not in authority.rpartition("@")[0] or "@" not in rest.partition("?")[0][len(authority) :]


#: URI schemes of directories, which have no login.
_FOLDERS: Final = {"file", "local"}
#: URI schemes with a container name before the @.
_CONTAINERS: Final = {"az", "azure", "azblob", "abfs", "abfss", "wasb", "wasbs"}
_AUTHORITY_END: Final = re.compile(r"[/?#]")
#: A host or a bucket with an optional port, user and password.
_AUTHORITY: Final = re.compile(r"([^:@]*(:[^@]*)?@)?(\[[0-9A-Fa-f:.%]*\]|[^:@\[\]]*)(:\d{0,5})?").fullmatch
_LOGIN: Final = re.compile(r"[^:]*:.*@", re.DOTALL).match


def quoted(text: str) -> str:
    """Quote a choice, a name or a number from user input, or hide it. A text with characters of an address or
    an assignment may contain a password; a long text is neither a choice, a name nor a number.
    """
    plain = len(text) <= _LONGEST_WORD and not _MARKS(text)
    return repr(text) if plain else HIDDEN


def shown_name(name: str) -> str:
    """Return the name of a key or an option from user input, or hide it if it is not a name."""
    return name if _NAME(name) else HIDDEN


#: Maximum characters of user input that `quoted` shows.
_LONGEST_WORD: Final = 80
_MARKS: Final = re.compile(r"://|[@=?&]|secret|passw", re.IGNORECASE).search
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,249}(/[0-9]{1,10})?").fullmatch


def shown_option(name: str, value: str) -> str:
    """Return the value of a codec's option for display: secrets are hidden and addresses redacted."""
    if _SECRET_WORDS.search(name.replace("_", "-")):
        return HIDDEN
    is_address = name.endswith(("-uri", "-url")) or "://" in value or "@" in value
    return shown_uri(value) if is_address else value
