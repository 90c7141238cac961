"""Static group membership with aiokafka 0.14: notice that another instance has taken over the membership.

The client's heartbeats do not contain `group.instance.id`, so brokers cannot report that another instance has
joined with the same one: the two would keep taking the membership from each other, and both would read
everything.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.group import HeartbeatRequest, HeartbeatRequest_v1
from aiokafka.protocol.types import Int16, Int32, Schema, String

from relay.io.kafka.error_codes import FencedInstanceId

_TEXT = String("utf-8")


class _HeartbeatResponse_v3(Response):  # type: ignore[misc]  # noqa: N801 - as aiokafka names its own
    API_KEY = 12
    API_VERSION = 3
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16))


class _HeartbeatRequest_v3(RequestStruct):  # type: ignore[misc]  # noqa: N801 - as aiokafka names its own
    API_KEY = 12
    API_VERSION = 3
    RESPONSE_TYPE = _HeartbeatResponse_v3
    SCHEMA = Schema(
        ("group", _TEXT), ("generation_id", Int32), ("member_id", _TEXT), ("group_instance_id", _TEXT)
    )


_HeartbeatStruct: TypeAlias = HeartbeatRequest_v1 | _HeartbeatRequest_v3


class _StaticHeartbeat(Request[_HeartbeatStruct]):  # type: ignore[misc]  # aiokafka is not typed
    """A heartbeat that names the instance (KIP-345, Kafka 2.3); version 1 does not."""

    API_KEY = 12

    def __init__(self, heartbeat: HeartbeatRequest, instance_id: str) -> None:
        self._heartbeat, self._instance_id = heartbeat, instance_id

    def build(self, request_struct_class: Any) -> Any:
        """Make the request in the version that the broker supports."""
        plain = self._heartbeat
        options = (self._instance_id,) if request_struct_class is _HeartbeatRequest_v3 else ()
        return request_struct_class(plain._group, plain._generation_id, plain._member_id, *options)


class StaticMember:
    """Watch the requests of a static member. `is_fenced`: another instance has joined with the same id."""

    def __init__(self, client: Any, instance_id: str) -> None:
        self.is_fenced = False
        self._instance_id, self._send = instance_id, client.send
        client.send = self._watched

    async def _watched(self, node_id: int, request: Any, **more: Any) -> Any:
        if isinstance(request, HeartbeatRequest):
            request = _StaticHeartbeat(request, self._instance_id)
        answer = await self._send(node_id, request, **more)
        if getattr(answer, "error_code", 0) == FencedInstanceId.errno:
            self.is_fenced = True
        return answer
