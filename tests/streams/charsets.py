"""Texts in another charset."""

from penstock.common import SimpleStringSchema, Types
from tests.streams.ends import environment, read, write

env = environment()
texts = read(env, "in", SimpleStringSchema("ISO-8859-1")).map(lambda text: f"{text}: {len(text)}", Types.STRING())
write(texts, "latin", SimpleStringSchema("ISO-8859-1"))
write(texts, "utf", SimpleStringSchema())
env.execute("charsets")
