"""The members of a broker's cluster, by one Metadata request over plain TCP."""

from __future__ import annotations

import socket

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

# Brokers know it from Kafka 2.4 on, and so do all that penstock can start.
_METADATA_VERSION = 9
_LARGEST_ANSWER = 1 << 20


def cluster_members(host: str, port: int, seconds: float = 2.0) -> dict[int, tuple[str, int]]:
    """The brokers that the one at ``host``:``port`` believes alive: node id to advertised host and port.

    Raises:
        OSError: it cannot be reached, does not answer within ``seconds``, or closes the connection.
    """
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    request.API_VERSION = _METADATA_VERSION
    request.with_header(correlation_id=1, client_id="penstock")
    with socket.create_connection((host, port), seconds) as connection, connection.makefile("rb") as stream:
        connection.sendall(request.encode(header=True, framed=True))
        size = int.from_bytes(stream.read(4), "big")
        if not 0 < size <= _LARGEST_ANSWER:
            raise ConnectionError(f"{host}:{port} does not speak Kafka")
        body = stream.read(size)
    if len(body) < size:
        raise ConnectionError(f"{host}:{port} closed the connection within its answer")
    answer = MetadataResponse.decode(body, version=_METADATA_VERSION, header=True)
    return {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
