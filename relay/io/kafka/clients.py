"""Connection arguments of aiokafka's clients: addresses, and TLS and SASL made from `Security`.

Certificates and secrets are read at the start, and again when a broker could not be reached and their files
have changed. Tokens (OAUTHBEARER, MSK) and Kerberos tickets are requested at each connection. Neither a
`repr` nor an error shows a secret.
"""

from __future__ import annotations

import importlib
import ssl
from pathlib import Path
from typing import Any, NamedTuple

from relay.io.files import read_small
from relay.io.kafka.kerberos import KerberosIdentity, KerberosService, patch_aiokafka
from relay.io.kafka.oauth import Credentials, EndpointTokens, FileTokens, notice_refused_tokens
from relay.io.kafka.settings import (
    DEFAULT_TIMEOUTS,
    ClusterSettings,
    Mechanism,
    Secret,
    Security,
    Timeouts,
    endpoint_fault,
)
from relay.model.errors import ConfigError, Problem

ClientArguments = dict[str, Any]
#: The keys of `Security` that name files; that of the token is read at each connection.
_FILES = (
    "ca_file",
    "certificate_file",
    "key_file",
    "key_password_file",
    "password_file",
    "client_secret_file",
    "keytab_file",
)
_PEM_HINT = "it must be PEM, with -----BEGIN CERTIFICATE-----"


class Brokers:
    """A cluster's brokers, shared by all clients of the cluster.

    `arguments`: TLS and SASL as aiokafka's consumer, producer and admin take them. `problems`: why the files
    could not be read again. `timeouts`: of the clients of a running relay.
    """

    def __init__(
        self,
        servers: str,
        security: Security,
        arguments: ClientArguments,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self.servers, self.security, self.arguments = servers, security, arguments
        self.timeouts = timeouts
        self.problems: list[Problem] = []
        self._files = _fingerprint(security)

    def renew(self) -> bool:
        """Read the files again if they have changed, and return whether the client arguments are new.

        Files that are missing or do not fit together may be about to be replaced: then the arguments stay
        unchanged, and the next call checks again.
        """
        files = _fingerprint(self.security)
        if files == self._files:
            return False
        self.problems = []
        arguments = _client_arguments(self.security, self.problems)
        if self.problems:
            return False
        self.arguments, self._files = arguments, files
        return True

    @classmethod
    def from_settings(cls, cluster: ClusterSettings, timeouts: Timeouts = DEFAULT_TIMEOUTS) -> Brokers:
        """Read the files of the settings, and make the arguments.

        Raises ConfigError with every problem: files that cannot be read, are empty or have wrong content, a
        key that its password does not open.
        """
        problems: list[Problem] = []
        brokers = cls(*cluster, _client_arguments(cluster.security, problems), timeouts)
        if problems:
            raise ConfigError(problems)
        return brokers


class Clusters(NamedTuple):
    """The brokers of both clusters: one object if both are one cluster, which then share their tokens."""

    source: Brokers
    target: Brokers

    @classmethod
    def from_settings(
        cls, source: ClusterSettings, target: ClusterSettings, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> Clusters:
        """Read the files of both. Raises ConfigError with every problem of both."""
        problems: list[Problem] = []
        first = second = Brokers(*source, _client_arguments(source.security, problems), timeouts)
        if target != source:
            second = Brokers(*target, _client_arguments(target.security, problems), timeouts)
        if problems:
            raise ConfigError(problems)
        return cls(first, second)


def _client_arguments(security: Security, problems: list[Problem]) -> ClientArguments:
    files = _SecurityFiles(security, problems)
    arguments: ClientArguments = {"security_protocol": security.protocol.value}
    if security.protocol.uses_tls:
        arguments["ssl_context"] = files.context()
    if security.protocol.uses_sasl:
        arguments |= _login(security, files)
    return arguments


def _login(security: Security, files: _SecurityFiles) -> ClientArguments:
    if security.mechanism is Mechanism.OAUTHBEARER:
        notice_refused_tokens()
        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": files.tokens()}
    if security.mechanism is Mechanism.AWS_MSK_IAM:
        notice_refused_tokens()
        # For clients other than Java's, MSK takes the signed request as a token.
        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": files.msk_tokens()}
    if security.mechanism is Mechanism.GSSAPI:
        patch_aiokafka()
        return {
            "sasl_mechanism": "GSSAPI",
            "sasl_kerberos_service_name": files.kerberos_service(),
            "sasl_kerberos_domain_name": security.kerberos_domain_name or None,
        }
    return {
        "sasl_mechanism": security.mechanism.value,
        "sasl_plain_username": security.username,
        "sasl_plain_password": Secret(files.secret("password")),
    }


def _fingerprint(security: Security) -> list[tuple[int, int, int] | None]:
    """Return inode, size and modification time of each file; None for a file that is missing or not set."""
    found: list[tuple[int, int, int] | None] = []
    for key in _FILES:
        name = getattr(security, key)
        try:
            seen = Path(name).stat() if name else None
        except OSError:
            seen = None
        found.append(None if seen is None else (seen.st_ino, seen.st_size, seen.st_mtime_ns))
    return found


class _SecurityFiles:
    """Read the files of security settings, and collect their problems."""

    def __init__(self, security: Security, problems: list[Problem]) -> None:
        self._security, self._problems = security, problems

    def secret(self, key: str) -> str:
        """Return a secret, or the content of its file without the line end."""
        if not getattr(self._security, f"{key}_file"):
            return str(getattr(self._security, key))
        try:
            found = self._content(f"{key}_file").decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            self._wrong(f"{key}_file", "is not text in UTF-8")
            return ""
        return found

    def context(self) -> ssl.SSLContext:
        """Return the TLS settings: the certificates that relay trusts, and its own."""
        security = self._security
        context = ssl.create_default_context()
        if security.ca_file and self._content("ca_file"):
            try:
                # With a file given, the system's certificates are not trusted.
                context = ssl.create_default_context(cafile=security.ca_file)
            except ssl.SSLError:
                self._wrong("ca_file", "contains no certificate", _PEM_HINT)
        if security.certificate_file:
            self._load_own(context)
        return context

    def _load_own(self, context: ssl.SSLContext) -> None:
        """Load relay's certificate and key. OpenSSL does not report which file is wrong, so each is tried."""
        security = self._security
        password = self.secret("key_password")
        certificate, key = self._content("certificate_file"), self._content("key_file")
        if certificate and not _holds_certificate(security.certificate_file):
            self._wrong("certificate_file", "contains no certificate", _PEM_HINT)
            return
        if not (certificate and key) or (security.key_password_file and not password):
            return
        try:
            # An empty password, too: without any, OpenSSL asks at the terminal.
            context.load_cert_chain(security.certificate_file, security.key_file, password)
        except (ssl.SSLError, ValueError) as error:
            if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
                self._wrong("key_file", "is not the key of the certificate in certificate_file")
            elif b"ENCRYPTED" not in key:
                self._wrong(
                    "key_file",
                    "contains no readable private key",
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
        """Return the provider of tokens for OAUTHBEARER."""
        security = self._security
        if security.token_file:
            self._content("token_file")
            return FileTokens(Path(security.token_file))
        fault, hint = endpoint_fault(security.token_endpoint, allow_http=security.token_endpoint_allow_http)
        if fault:
            self._wrong("token_endpoint", fault, hint)
        secret = Secret(self.secret("client_secret"))
        credentials = Credentials(security.token_endpoint, security.client_id, secret, security.scope)
        return EndpointTokens(credentials, self._endpoint_context())

    def msk_tokens(self) -> Any:
        """Return the provider of tokens for Amazon MSK; None if the extra or the region is missing."""
        security = self._security
        try:
            # The extra is not part of the base installation.
            msk = importlib.import_module("relay.io.kafka.msk")
        except ImportError:
            self._wrong(
                "mechanism",
                f"{security.mechanism} needs AWS's signer, which is not installed",
                "pip install '.[msk]' in relay's folder; the image has it",
            )
            return None
        region = msk.region_of(security.aws_region, security.aws_profile)
        if not region:
            self._wrong("aws_region", "is missing", "set it, or the variable AWS_REGION")
            return None
        return msk.MskTokens(msk.AwsIdentity(region, security.aws_profile, security.aws_role_arn))

    def kerberos_service(self) -> KerberosService:
        """Return the service's name with the identity; note a missing extra or keytab."""
        security = self._security
        if security.keytab_file:
            self._content("keytab_file")
        try:
            # The extra is not part of the base installation.
            importlib.import_module("gssapi")
        except (ImportError, OSError):  # an OSError without the system's library
            self._wrong(
                "mechanism",
                f"{security.mechanism} needs the package gssapi, which is not installed or lacks its library",
                "install libgssapi-krb5-2, and '.[kerberos]' in relay's folder; the image has both",
            )
        identity = KerberosIdentity.of(security.keytab_file, security.kerberos_principal)
        return KerberosService(security.kerberos_service_name, identity)

    def _endpoint_context(self) -> ssl.SSLContext:
        """Trust the system's certificates at the token endpoint, and also those of `ca_file`.

        Unlike the brokers, the endpoint may be a public service. It does not get relay's own certificate.
        """
        context = ssl.create_default_context()
        if self._security.ca_file and _holds_certificate(self._security.ca_file):
            context.load_verify_locations(cafile=self._security.ca_file)
        return context

    def _content(self, key: str) -> bytes:
        """Return a file's content; if it is unreadable or empty, return nothing and note a problem."""
        name = getattr(self._security, key)
        try:
            found = read_small(Path(name))
        except OSError as error:
            self._wrong(key, f"{name} cannot be read: {error.strerror}")
            return b""
        if not found.strip():
            self._wrong(key, f"{name} is empty")
            return b""
        return found

    def _wrong(self, key: str, message: str, hint: str = "") -> None:
        self._problems.append(Problem(f"{self._security.table}.{key}", message, hint))


def _holds_certificate(name: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=name)
    except OSError:  # an SSLError is one
        return False
    return True
