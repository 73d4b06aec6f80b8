"""What a Kafka table is: its options, columns and formats, for both directions."""
