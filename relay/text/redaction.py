"""What may be shown of texts from outside: in error texts, logs, status and JSON, on terminals.

Names of columns, tables and topics, answers of brokers and texts of libraries are written by others. They
may hold characters that steer terminals or turn lines around, may be of any length, and may hold half a
character. They pass through here where they are printed, logged or served, not where an error is raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

#: Most characters of a text in an error or a log line.
LONGEST: Final = 2_000
#: What may stand in JSON as it is: printable ASCII, and the line ends between members.
_BEYOND_ASCII: Final = re.compile(r"[^\x20-\x7e\n]")
#: Parts of an option's name that say that its value is secret.
_SECRET_WORDS: Final = re.compile(
    r"password|passwd|secret|token|credential|access-key|api-key", re.IGNORECASE
)
HIDDEN: Final = "(not shown)"


def plural(count: int, noun: str) -> str:
    """Write a count and a regular noun: `1 partition`, `2 partitions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def first_of(names: Sequence[str], most: int) -> str:
    """List names, `most` of them at most, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def printable(text: str, keep: str = "", longest: int | None = LONGEST) -> str:
    """Return a text in which what is not printable is escaped, except the characters in `keep`: control
    characters (C0, C1), those that change the direction of text, half characters.

    A text of more than `longest` characters loses its middle: errors say what is wrong at their end.
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
    """Return a text without its middle, if it has more characters than that; nothing is escaped."""
    if len(text) <= longest:
        return text
    first, mark, last = _parts(text, longest)
    return text[:first] + mark + text[-last:]


def _parts(text: str, longest: int) -> tuple[int, str, int]:
    """Return how much of a long text is shown of its beginning and of its end, and the mark between them."""
    mark = f"… ({len(text)} characters) …"
    room = longest - len(mark)
    return room - room // 3, mark, room // 3


def _escaped(text: str, keep: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else repr(char)[1:-1] for char in text)


def to_json(value: object, default: Callable[[Any], Any] | None = None, option: int = 0) -> bytes:
    """Return JSON that steers no terminal: the same value, with what is not printable escaped as JSON does.

    Half characters, which UTF-8 lacks, become text such as `\\ud800`; whole numbers may be of any length.
    Otherwise like `orjson.dumps`.
    """
    try:
        data = orjson.dumps(value, default, option)
    except orjson.JSONEncodeError:
        whole = None if default is None else lambda other: _whole(default(other))
        data = orjson.dumps(_whole(value), whole, option)
    return plain_json(data)


def plain_json(data: bytes) -> bytes:
    """Return JSON with what is not printable escaped; the value stays the same."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _BEYOND_ASCII.sub(_json_escape, data.decode()).encode()


def _json_escape(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f")


def _whole(value: object) -> object:
    """Replace what orjson refuses: half characters in texts, and numbers beyond 64 bits."""
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
    """Return a URI without the parameters, users and passwords that it may hold. A path is shown as it is.

    Passwords are not always escaped as they should be: one with a slash ends what looks like the host. What
    has not the form of an address is not shown at all.
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
    """Tell whether a URI with a scheme has a host, perhaps with a port and a login before it, and no other
    place where a password could stand but its parameters.
    """
    rest = uri.partition("://")[2]
    authority = _AUTHORITY_END.split(rest, maxsplit=1)[0]
    if not _AUTHORITY(authority):
        return False
    # With a login, another @ means that the password holds one, or holds what seemed to be the path.
    return ":" not in authority.rpartition("@")[0] or "@" not in rest.partition("?")[0][len(authority) :]


#: Schemes of folders, which have no login.
_FOLDERS: Final = {"file", "local"}
#: Schemes in which a container's name stands before the @.
_CONTAINERS: Final = {"az", "azure", "azblob", "abfs", "abfss", "wasb", "wasbs"}
_AUTHORITY_END: Final = re.compile(r"[/?#]")
#: A host or a bucket, perhaps with a port, perhaps with a user and a password.
_AUTHORITY: Final = re.compile(r"([^:@]*(:[^@]*)?@)?(\[[0-9A-Fa-f:.%]*\]|[^:@\[\]]*)(:\d{0,5})?").fullmatch
_LOGIN: Final = re.compile(r"[^:]*:.*@", re.DOTALL).match


def quoted(text: str) -> str:
    """Return what a user has typed for a choice, a name or a number, in quotes, as it may be shown: what
    has the marks of an address or of an assignment may hold a password, and what is long is something else.
    """
    plain = len(text) <= _LONGEST_WORD and not _MARKS(text)
    return repr(text) if plain else HIDDEN


def shown_name(name: str) -> str:
    """Return the name of a key or an option that may not exist, if it has the form of one."""
    return name if _NAME(name) else HIDDEN


#: Most characters of a word that a user has typed.
_LONGEST_WORD: Final = 80
_MARKS: Final = re.compile(r"://|[@=?&]|secret|passw", re.IGNORECASE).search
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,249}(/[0-9]{1,10})?").fullmatch


def shown_option(name: str, value: str) -> str:
    """Return the value of a codec's option as it may be shown: addresses lose what may be secret."""
    if _SECRET_WORDS.search(name.replace("_", "-")):
        return HIDDEN
    is_address = name.endswith(("-uri", "-url")) or "://" in value or "@" in value
    return shown_uri(value) if is_address else value
