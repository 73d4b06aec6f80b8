"""The ``avro-confluent`` format: Avro data after the id of its schema in a schema registry."""
