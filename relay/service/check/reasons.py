"""Why a relay cannot start: aiokafka calls a wrong password, a certificate that is not trusted and a closed
port alike.
"""

from __future__ import annotations

from relay.config import Config
from relay.errors import BrokerUnavailable
from relay.kafka.clients import ClusterSettings
from relay.service.check.connectivity import Access
from relay.service.check.route import diagnosis


async def with_reasons(
    error: BrokerUnavailable, config: Config, settings: ClusterSettings
) -> BrokerUnavailable:
    """Make the same error with what is wrong with each address of both clusters, or give it as it is if all
    can be used by now.
    """
    wrong = [await diagnosis(config.source.bootstrap_servers, Access.to_source(config, settings.source))]
    if config.target.bootstrap_servers:
        wrong.append(
            await diagnosis(config.target.bootstrap_servers, Access.to_target(config, settings.target))
        )
    found = ". ".join(filter(None, dict.fromkeys(wrong)))
    return BrokerUnavailable(found) if found else error
