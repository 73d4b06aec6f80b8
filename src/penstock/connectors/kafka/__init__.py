"""The ``kafka`` connector: append-only tables over Kafka topics."""
