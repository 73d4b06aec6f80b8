"""The ``protobuf`` format: one message of Protocol Buffers per row."""
