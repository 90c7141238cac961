"""Settings of a schema registry client; made by `relay.config.registries`, or from a URL alone."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from relay.text.redaction import is_plain_address, shown_uri


@dataclass(frozen=True, kw_only=True)
class RegistrySettings:
    """A registry: its address, its credentials, and whether schemas may be registered.

    `table`: the name of these settings in messages. `urls`: several URLs of the same registry, of which one
    that answers is used. A secret is given directly, or in a separate file, read at each start, and again
    when the registry refuses it. `register_schemas`: whether schemas that it lacks are registered.
    `timeout_seconds`: of one request. `cache_dir`: a folder that keeps schemas and ids, for times in which no
    URL answers; "" for none.
    """

    table: str
    urls: tuple[str, ...]
    username: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""
    bearer_token: str = field(default="", repr=False)
    bearer_token_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    register_schemas: bool = True
    timeout_seconds: float = 10.0
    cache_dir: str = ""

    @property
    def shown(self) -> str:
        """Return the registry's name for messages."""
        return ", ".join(map(shown_uri, self.urls))

    @property
    def has_credentials(self) -> bool:
        """Return whether requests carry a secret."""
        return bool(self.username or self.bearer_token or self.bearer_token_file)


def url_fault(url: str, *, has_credentials: bool, allow_http: bool = False) -> tuple[str, str]:
    """Return the problem with a registry's URL, and the remedy; two empty texts if none.

    Over http:// everyone on the network path can read the credentials, so they are only for this machine,
    unless it is allowed.
    """
    try:
        parts = urlsplit(url)
        host, login = parts.hostname, "@" in parts.netloc
        _ = parts.port
    except ValueError:
        host, login = None, False
    if not host or parts.scheme not in {"http", "https"} or not is_plain_address(url):
        return "is not an address", "write it as https://host:8081"
    if login:
        return "contains a user or a password", "set username and password instead"
    if parts.query or parts.fragment:
        return "has parameters, which registries do not use", "remove the part from ? or # on"
    if parts.scheme == "http" and has_credentials and not allow_http and not is_this_machine(host):
        hint = "use https://, or set allow_http = true if the network is trusted"
        return "sends credentials over http:// in clear text", hint
    return "", ""


def is_this_machine(host: str) -> bool:
    """Return whether a host is the machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
