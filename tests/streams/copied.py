"""Strings from one topic to another."""

from tests.streams.ends import environment, read, write

env = environment()
write(read(env, "in"), "out")
env.execute("copied")
