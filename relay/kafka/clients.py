"""What aiokafka's clients need to know about TLS and SASL, made from [source.security] and [target.security].

Secrets are read when the settings are made, that is at the start; tokens of OAUTHBEARER at each connection.
Neither the settings' `repr` nor an error shows a secret.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import SecretStr

from relay.config import Config, Security
from relay.config.choices import Mechanism
from relay.errors import ConfigError, Problem
from relay.kafka.oauth import Credentials, EndpointTokens, FileTokens, notice_refused_tokens

Settings = dict[str, Any]
_PEM_HINT = "it must be PEM, with -----BEGIN CERTIFICATE-----"


class ClusterSettings(NamedTuple):
    """The arguments for clients of both clusters. They are one object if both are one cluster, and so share
    their tokens.
    """

    source: Settings
    target: Settings


def cluster_settings(config: Config) -> ClusterSettings:
    """Make the settings of source and target. Raises ConfigError with every problem of both."""
    problems: list[Problem] = []
    source = _made(config.source.security, "source.security", problems)
    target = source
    if config.target.bootstrap_servers:
        target = _made(config.target.security, "target.security", problems)
    if problems:
        raise ConfigError(problems)
    return ClusterSettings(source, target)


def source_settings(config: Config) -> Settings:
    """Make the arguments for clients of the source's brokers; see `client_settings`."""
    return client_settings(config.source.security, "source.security")


def target_settings(config: Config) -> Settings:
    """Make the arguments for clients of the target's brokers; see `client_settings`."""
    return client_settings(config.target_security, config.target_security_path)


def client_settings(security: Security, path: str = "source.security") -> Settings:
    """Make the arguments that AIOKafkaConsumer, AIOKafkaProducer and AIOKafkaAdminClient take.

    `path` is the table's name in the configuration, for messages. Raises ConfigError with every problem:
    files that cannot be read, that are empty or hold something else, a key that its password does not open.
    """
    problems: list[Problem] = []
    settings = _made(security, path, problems)
    if problems:
        raise ConfigError(problems)
    return settings


def _made(security: Security, path: str, problems: list[Problem]) -> Settings:
    material = _Material(security, path, problems)
    settings: Settings = {"security_protocol": security.protocol.value}
    if security.uses_tls:
        settings["ssl_context"] = material.context()
    if security.uses_sasl:
        settings["sasl_mechanism"] = security.mechanism.value
        if security.mechanism is Mechanism.OAUTHBEARER:
            notice_refused_tokens()
            settings["sasl_oauth_token_provider"] = material.tokens()
        else:
            settings["sasl_plain_username"] = security.username
            settings["sasl_plain_password"] = _Hidden(material.secret("password"))
    return settings


class _Hidden(str):
    """A secret as aiokafka wants it, a text, that a `repr` of the settings does not show."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'**********'"


class _Material:
    """Reads the files of one table and collects what is wrong with them."""

    def __init__(self, security: Security, path: str, problems: list[Problem]) -> None:
        self._security, self._path, self._problems = security, path, problems

    def secret(self, key: str) -> str:
        """The value of a secret, or what its file holds without the line end."""
        value: SecretStr = getattr(self._security, key)
        if not getattr(self._security, f"{key}_file"):
            return value.get_secret_value()
        try:
            found = self._content(f"{key}_file").decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            self._wrong(f"{key}_file", "is not text in UTF-8")
            return ""
        return found

    def context(self) -> ssl.SSLContext:
        """The TLS settings: whom relay trusts, and its own certificate."""
        security = self._security
        context = ssl.create_default_context()
        if security.ca_file and self._content("ca_file"):
            try:
                # With a file given, the system's certificates are not trusted.
                context = ssl.create_default_context(cafile=security.ca_file)
            except ssl.SSLError:
                self._wrong("ca_file", "holds no certificate", _PEM_HINT)
        if security.certificate_file:
            self._load_own(context)
        return context

    def _load_own(self, context: ssl.SSLContext) -> None:
        """Load relay's own certificate and its key. OpenSSL does not tell which of the files is at fault, so
        each is tried.
        """
        security = self._security
        password = self.secret("key_password")
        certificate, key = self._content("certificate_file"), self._content("key_file")
        if certificate and not _holds_certificate(security.certificate_file):
            self._wrong("certificate_file", "holds no certificate", _PEM_HINT)
            return
        if not (certificate and key) or (security.key_password_file and not password):
            return
        try:
            # Some text must be given, or OpenSSL asks at the terminal.
            context.load_cert_chain(security.certificate_file, security.key_file, password)
        except (ssl.SSLError, ValueError) as error:
            if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
                self._wrong("key_file", "is not the key of the certificate in certificate_file")
            elif b"ENCRYPTED" not in key:
                self._wrong(
                    "key_file",
                    "holds no private key that can be read",
                    "it must be PEM, with -----BEGIN PRIVATE KEY-----",
                )
            elif password:
                self._wrong(
                    "key_password_file" if security.key_password_file else "key_password",
                    "does not open key_file",
                )
            else:
                self._wrong(
                    "key_password",
                    "is missing: key_file is encrypted",
                    "set key_password or key_password_file",
                )

    def tokens(self) -> FileTokens | EndpointTokens:
        """Who gives tokens for OAUTHBEARER."""
        security = self._security
        if security.token_file:
            self._content("token_file")
            return FileTokens(Path(security.token_file))
        url = urlsplit(security.token_endpoint)
        if url.scheme not in {"http", "https"} or not url.hostname:
            self._wrong("token_endpoint", "is no address", "write it as https://host/path")
        if url.username or url.password:
            self._wrong(
                "token_endpoint", "holds a user or a password", "set client_id and client_secret instead"
            )
        secret = self.secret("client_secret")
        credentials = Credentials(
            security.token_endpoint, security.client_id, _Hidden(secret), security.scope
        )
        return EndpointTokens(credentials, self._endpoint_context())

    def _endpoint_context(self) -> ssl.SSLContext:
        """Whom relay trusts at the token endpoint: the system's certificates, and those of `ca_file` besides.

        Other than brokers, it may be a public service or one's own; relay's own certificate is not shown to
        it.
        """
        context = ssl.create_default_context()
        if self._security.ca_file and _holds_certificate(self._security.ca_file):
            context.load_verify_locations(cafile=self._security.ca_file)
        return context

    def _content(self, key: str) -> bytes:
        """What a file holds; nothing, and a problem, if it cannot be read or holds nothing."""
        name = getattr(self._security, key)
        try:
            found = Path(name).read_bytes()
        except OSError as error:
            self._wrong(key, f"{name} cannot be read: {error.strerror}")
            return b""
        if not found.strip():
            self._wrong(key, f"{name} is empty")
            return b""
        return found

    def _wrong(self, key: str, message: str, hint: str = "") -> None:
        self._problems.append(Problem(f"{self._path}.{key}", message, hint))


def _holds_certificate(name: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=name)
    except OSError:  # an SSLError is one
        return False
    return True
