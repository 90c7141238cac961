"""What the brokers allow this client, as `relay.kafka.requests` asks them (KIP-430, Kafka 2.3)."""

from __future__ import annotations

from enum import IntEnum

#: The bit field of a broker that does not tell.
UNTOLD = -(2**31)


class Operation(IntEnum):
    """Kafka's numbers of the operations that ACLs are about (`AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10


def allows(operations: int, operation: Operation) -> bool | None:
    """Whether a bit field of operations holds this one; None if the broker does not tell."""
    return None if operations == UNTOLD else bool(operations & 1 << operation)
