"""Values that are brought into the program."""

from penstock.common import Types
from tests.streams.ends import environment, read, write

env = environment()
numbers = read(env, "in").map(int, Types.INT())
with numbers.map(lambda number: number * number, Types.INT()).execute_and_collect("squares") as found:
    squares = list(found)
print(squares, type(found).__name__)
print(list(numbers.execute_and_collect("some", limit=2)))
write(env.from_collection([str(sum(squares))], Types.STRING()), "out")
env.execute("collected")
