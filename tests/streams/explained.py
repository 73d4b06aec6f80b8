"""The execution plan of a program, up to its sink, which Flink shows in parts."""

import json

from penstock.common import Types
from tests.streams.ends import environment, read, write

env = environment()
env.set_parallelism(2)
texts = read(env, "a").union(read(env, "b")).map(lambda text: text.upper(), Types.STRING()).name("upper")
write(texts.rebalance().filter(lambda text: text != "A").set_parallelism(1), "out")
nodes = json.loads(env.get_execution_plan())["nodes"]
places = {node["id"]: place for place, node in enumerate(nodes, start=1)}
for node in nodes:
    if "to out" not in node["type"]:
        before = [(places[each["id"]], each["ship_strategy"]) for each in node.get("predecessors", ())]
        print(sorted(node), node["pact"], node["type"], node["parallelism"], before)
