"""Host names accepted by the HTTP server.

A page of another site can make a browser send a request to an address in its visitor's network, if the site's
own name resolves to that address (DNS rebinding), and read the answer. The browser then sends the site's name
as `Host`. So a name that anybody could own is refused unless it is configured.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

#: Suffixes of names that nobody can register: of this machine (RFC 6761), of services and pods in Kubernetes.
_NOBODYS: Final = (".localhost", ".svc", ".cluster.local")
_PORT: Final = re.compile(r":\d{0,5}$")
ANY: Final = "*"


class Hosts:
    """The accepted values of a `Host` header.

    Addresses, as probes and Prometheus send them; names without a dot, which no public zone has; names with a
    suffix in `_NOBODYS`; and `names`, of which `*` accepts every name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {_plain(name) for name in names}

    def allows(self, header: str) -> bool:
        """Return whether a request with this `Host` is accepted."""
        name = _plain(_PORT.sub("", header))
        return (
            ANY in self._names
            or name in self._names
            or "." not in name
            or name.endswith(_NOBODYS)
            or _is_address(name)
        )


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".").removeprefix("[").removesuffix("]")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
