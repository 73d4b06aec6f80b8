"""Values that are sent to the parallel instances of the next step in each of the ways."""

from penstock.common import Types
from tests.streams.ends import environment, read, write

env = environment()
env.set_parallelism(2)
stream = read(env, "in").set_parallelism(1)
for name, sent in (
    ("rebalance", stream.rebalance()),
    ("rescale", stream.rescale()),
    ("shuffle", stream.shuffle()),
    ("broadcast", stream.broadcast()),
    ("custom", stream.partition_custom(lambda key, count: key % count, len)),
):
    write(sent.map(lambda text: f"{text}.", Types.STRING()).name(name), name)
env.execute("distributed")
