"""The values of three topics in one."""

from penstock.common import Types
from tests.streams.ends import environment, read, write

env = environment()
first, second, third = (read(env, each) for each in ("a", "b", "c"))
united = first.union(second, third.map(lambda text: f"{text}?", Types.STRING()))
write(united.filter(lambda text: "x" not in text).map(lambda text: f"{text}!", Types.STRING()), "out")
env.execute("united")
