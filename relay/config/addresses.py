"""Parse addresses as aiokafka and the system's resolver do, to find errors before a connection."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from typing import Final, NamedTuple

#: Spaces and control characters, and the characters around a host in an address or a URL.
_NOT_IN_HOSTS: Final = re.compile(r"[\s\x00-\x1f\x7f/@,\[\]]")
_PORT: Final = re.compile(r"0*[1-9][0-9]{0,4}")
_LARGEST_PORT: Final = 65_535
_DEFAULT_PORT: Final = 9092
_NO_HOST: Final = "has no host name"
_NO_PORT: Final = f"has no port from 1 to {_LARGEST_PORT}"


class Address(NamedTuple):
    """The host and port of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_host(text: str) -> bool:
    """Return whether a text may be the name or the address of a host, without a lookup."""
    if not text or _NOT_IN_HOSTS.search(text):
        return False
    if ":" in text and not _is_ipv6(text):
        return False
    try:
        # The resolver encodes every name so: it limits the length of labels, and refuses characters.
        text.encode("idna")
    except UnicodeError:
        return False
    return True


def split_servers(servers: str) -> list[str]:
    """Return the servers of `bootstrap_servers`; one between two commas may be empty."""
    return [server.strip() for server in servers.split(",")]


def parse_server(server: str) -> Address:
    """Parse one server: `host`, `host:port`, or an address of IPv6, in brackets if a port follows.

    Without a port it is 9092 (aiokafka 0.14, `get_ip_port_afi`). Raises ValueError with the reason.
    """
    if server.startswith("["):
        host, bracket, port = server[1:].partition("]")
        host = host if bracket else ""
    elif "%" not in server and _is_ipv6(
        server
    ):  # with a zone, the client takes the text after the last colon as the port
        host, port = server, ""
    else:
        host, colon, number = server.rpartition(":")
        host, port = (host, colon + number) if colon else (server, "")
    if not is_host(host):
        raise ValueError(_NO_HOST)
    if port and not _is_port(port):
        raise ValueError(_NO_PORT)
    return Address(host, int(port.removeprefix(":")) if port else _DEFAULT_PORT)


def same_brokers(one: str, other: str) -> bool:
    """Return whether both name a common broker; two names of one broker cannot be recognized here."""
    return bool(_addresses(one) & _addresses(other))


def _addresses(servers: str) -> set[Address]:
    found = set()
    for server in split_servers(servers.lower()):
        with contextlib.suppress(ValueError):  # `relay.config.checks` reports it
            found.add(parse_server(server))
    return found


def _is_port(text: str) -> bool:
    number = text.removeprefix(":").strip(" ")
    return text.startswith(":") and bool(_PORT.fullmatch(number)) and int(number) <= _LARGEST_PORT


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
