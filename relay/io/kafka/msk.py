"""Tokens for Amazon MSK with IAM: made by AWS's own signer, from AWS credentials that botocore finds.

This module needs the extra `msk`; `relay.io.kafka.clients` imports it only for such clusters. A token is a
signed URL. Neither it nor the credentials appear in messages or logs.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aiokafka.abc import AbstractTokenProvider
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    CredentialProvider,
    DeferredRefreshableCredentials,
)
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    ProfileNotFound,
)
from botocore.session import Session

from relay.io.kafka.oauth import NoToken

#: Maximum time to obtain credentials: from files, the instance's metadata or AWS STS. It is shorter than that
#: of a connection, so that the reason is reported.
CREDENTIALS_SECONDS: Final = 8.0
#: The variables with the region, in the order in which AWS's own libraries read them.
REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_STS: Final = Config(connect_timeout=3, read_timeout=3, retries={"total_max_attempts": 2})

# At DEBUG, botocore.auth logs the parts of a signed URL, from which a token can be made.
logging.getLogger("botocore.auth").setLevel(logging.INFO)


class AwsIdentity(NamedTuple):
    """The identity that signs tokens; empty texts are for AWS's default chain of credentials.

    `region`: of the cluster. `profile`: of AWS's configuration files. `role_arn`: a role that the credentials
    assume.
    """

    region: str
    profile: str = ""
    role_arn: str = ""


def region_of(region: str, profile: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the configured region, or that of the environment or of the profile; "" if there is none."""
    found = region or next((environment[name] for name in REGION_VARIABLES if environment.get(name)), "")
    if found:
        return found
    try:
        return Session(profile=profile or None).get_config_variable("region") or ""
    except BotoCoreError:
        # The profile does not exist, or AWS's files cannot be read; the first token reports it.
        return ""


class MskTokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka is not typed
    """Sign a new token for each connection, with credentials that botocore renews before they expire.

    Signing needs no request, and a connection lives only as long as its token (15 minutes), so each has its
    own token. After a time-out, the old call may still run beside the next one, and only sets the same
    credentials.
    """

    def __init__(self, identity: AwsIdentity, seconds: float = CREDENTIALS_SECONDS) -> None:
        self._identity, self._seconds = identity, seconds
        self._credentials: Any = None
        # Connections to several brokers begin at the same time; the credentials are requested once.
        self._lock = asyncio.Lock()

    async def token(self) -> str:
        """Return a new token. Raises NoToken."""
        async with self._lock:
            try:
                async with asyncio.timeout(self._seconds):
                    return await asyncio.to_thread(self._sign)
            except TimeoutError as error:
                text = f"AWS gives no credentials within {self._seconds:g} s"
                raise NoToken(f"no token can be signed for Amazon MSK: {text}") from error
            except (BotoCoreError, ClientError, OSError, ValueError) as error:
                # The next attempt looks for credentials again: files and variables may have changed.
                self._credentials = None
                raise NoToken(f"no token can be signed for Amazon MSK: {_reason(error)}") from None

    def _sign(self) -> str:
        if self._credentials is None:
            self._credentials = _credentials_of(self._identity)
        token, _ = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider(
            self._identity.region, _FrozenCredentialsProvider(self._credentials)
        )
        return str(token)


class _FrozenCredentialsProvider(CredentialProvider):  # type: ignore[misc]  # botocore is not typed
    """Give the signer an immutable copy, so that a refresh cannot mix two sets of credentials."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def load(self) -> Any:
        return self._credentials.get_frozen_credentials()


def _credentials_of(identity: AwsIdentity) -> Any:
    """Return credentials that botocore renews. Raises BotoCoreError."""
    session = Session(profile=identity.profile or None)
    # For AWS STS, which the default chain also uses.
    session.set_config_variable("region", identity.region)
    session.set_default_client_config(_STS)
    credentials = session.get_credentials()
    if credentials is None:
        raise NoCredentialsError
    if not identity.role_arn:
        return credentials
    fetcher = AssumeRoleCredentialFetcher(
        functools.partial(session.create_client, region_name=identity.region),
        credentials,
        identity.role_arn,
    )
    return DeferredRefreshableCredentials(refresh_using=fetcher.fetch_credentials, method="assume-role")


def _reason(error: Exception) -> str:
    """Return the reason without texts of other programs, which may contain secrets."""
    if isinstance(error, NoCredentialsError):
        return "there are no AWS credentials in variables, files, web identity or instance metadata"
    if isinstance(error, ClientError):
        operation = error.operation_name
        return f"AWS refuses {operation}: {error.response.get('Error', {}).get('Code', 'no reason given')}"
    if isinstance(error, ProfileNotFound | HTTPClientError):
        return str(error)
    return f"the AWS credentials cannot be obtained ({type(error).__name__})"
