"""Why relay cannot start: to aiokafka a wrong password, untrusted certificate and closed port look alike."""

from __future__ import annotations

from relay.errors import BrokerUnavailable
from relay.kafka.clients import Clusters
from relay.service.check.route import diagnosis


async def with_reasons(error: BrokerUnavailable, clusters: Clusters) -> BrokerUnavailable:
    """Return the error with what is wrong with each address of both clusters; unchanged if all work now."""
    wrong = [await diagnosis(clusters.source)]
    if clusters.target is not clusters.source:
        wrong.append(await diagnosis(clusters.target))
    found = ". ".join(filter(None, dict.fromkeys(wrong)))
    return BrokerUnavailable(found) if found else error
