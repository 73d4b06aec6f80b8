"""The ``avro`` format, and the codec of Avro data that every format of its family shares: a pair of schemas is compiled
into a program once, and a loop runs it over the bytes of messages."""
