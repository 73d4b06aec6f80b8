"""The ``debezium-json`` format: changes as Debezium writes them."""
