"""The ``debezium-avro-confluent`` format: changes as Debezium writes them with Confluent's Avro converter."""
