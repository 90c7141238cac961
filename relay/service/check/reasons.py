"""Why a relay cannot start: aiokafka says the same of a wrong password, an untrusted certificate and a closed
port.
"""

from __future__ import annotations

from relay.errors import BrokerUnavailable
from relay.kafka.clients import Clusters
from relay.service.check.route import diagnosis


async def with_reasons(error: BrokerUnavailable, clusters: Clusters) -> BrokerUnavailable:
    """Return the same error with what is wrong with each address of both clusters, or unchanged if all can be
    used by now.
    """
    wrong = [await diagnosis(clusters.source)]
    if clusters.target is not clusters.source:
        wrong.append(await diagnosis(clusters.target))
    found = ". ".join(filter(None, dict.fromkeys(wrong)))
    return BrokerUnavailable(found) if found else error
