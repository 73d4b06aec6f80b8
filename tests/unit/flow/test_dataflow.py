"""Whole dataflows, batch by batch: the result is that of a recomputation, wherever tasks, owners and batches begin."""

import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest

from penstock.flow.graph.dataflow import Dataflow
from penstock.flow.graph.outlets import Target
from penstock.flow.graph.planner import Planner
from penstock.plan.nodes import AggregateCall, GroupAggregate, Join, JoinKind, Scan, Sink, Union, scans
from penstock.spi import CHANGES, HIDDEN, KIND, Guarantee, Output, ScanCapabilities, SinkCapabilities
from penstock.types import BIGINT, STRING, Field, RowKind, RowType, arrow_schema
from tests.tables import Read, Written
from tests.unit.flow.driver import PASSING, Driver

ORDERS = RowType((Field("id", BIGINT), Field("customer", STRING), Field("amount", BIGINT)), nullable=False)
CUSTOMERS = RowType((Field("name", STRING), Field("country", STRING)), nullable=False)
CHANGING = ScanCapabilities(kinds=CHANGES, bounded=True)


def scan(name, schema):
    return Scan(schema, name, "values", Read(name, CHANGING))


def total(node, key, amount, uid="totals"):
    keys = RowType((next(each for each in node.schema.fields if each.name == key),), nullable=False)
    calls = (AggregateCall("orders", "COUNT", BIGINT), AggregateCall("total", "SUM", BIGINT, amount))
    schema = RowType((*keys.fields, Field("orders", BIGINT), Field("total", BIGINT)), nullable=False)
    return GroupAggregate(schema, node, (key,), calls, uid=uid)


def joined(left, right):
    schema = RowType((*left.schema.fields, *right.schema.fields), nullable=False)
    return Join(schema, left, right, JoinKind.LEFT, ("customer",), ("name",), uid="join")


def flow_of(node, storage, **capabilities):
    takes = SinkCapabilities(kinds=CHANGES, guarantee=Guarantee.NONE, **capabilities)
    sink = Sink(node.schema, node, "out", "values", Written("out", node.schema, takes))
    planner = Planner(scans(node))
    planner.add(sink, 0)
    output = Output(0, "out", sink.spec, node.schema)
    return Dataflow(tuple(planner.branches), planner.ordered(), (output,), str(storage))


def random_changes(rng, rows, columns):
    """Changes of a table as ``(kind, row)``: only live rows are deleted."""
    live, changes = [], []
    for number in range(rows):
        if live and rng.random() < 0.35:
            changes.append((RowKind.DELETE, live.pop(rng.randrange(len(live)))))
        else:
            row = columns(rng, number)
            live.append(row)
            changes.append((RowKind.INSERT, row))
    return changes, Counter(live)


def order(rng, number):
    return (number, rng.choice("abcdefg"), rng.choice([None, 1, 5, 10]))


def customer(rng, number):
    return (rng.choice("abcdefgh"), rng.choice(["DE", "FR"]))


def encoded(changes, schema, first):
    """A batch of a scan: the table's columns, HIDDEN and KIND."""
    columns = list(zip(*(row for _, row in changes), strict=True)) if changes else [()] * len(schema.fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow_schema(schema), strict=True)]
    hidden = [pa.array([0] * len(changes), pa.int32()), pa.array(range(first, first + len(changes)), pa.int64())]
    kinds = pa.array([int(kind) for kind, _ in changes], pa.int8())
    return pa.RecordBatch.from_arrays([*arrays, *hidden, kinds], names=[*schema.names, *HIDDEN.names, KIND])


def applied(table, batches):
    """A table after the changes; a retraction must match a live row."""
    for batch in batches:
        *columns, kinds = (batch.column(name).to_pylist() for name in batch.schema.names if name not in HIDDEN.names)
        for *row, kind in zip(*columns, kinds, strict=True):
            key = tuple(row)
            if kind in (RowKind.DELETE, RowKind.UPDATE_BEFORE):
                assert table[key] > 0, f"{key} is retracted but not there"
                table[key] -= 1
            else:
                table[key] += 1
    return table


def run(flow, streams, rng, folder=""):
    """The table that a sink has at the end, when streams of changes (by scan) are cut at random into batches, tasks and
    owners."""
    driver, table, at = Driver(flow, folder, sizes=(100, 500, 2)), Counter(), dict.fromkeys(streams, 0)
    while any(at[scan] < len(changes) for scan, (changes, _) in streams.items()):
        tasks = []
        for scan, (changes, schema) in streams.items():
            rows = rng.choice([1, 3, 50, len(changes)])
            part = changes[at[scan] : at[scan] + rows]
            cut = rng.randrange(len(part) + 1)
            if part:
                tasks.append((scan, [encoded(part[:cut], schema, at[scan]), encoded(part[cut:], schema, cut)]))
            at[scan] += len(part)
        table = applied(table, driver.run(tasks, rng.choice([1, 2, 5])))
    return +table, driver


def totals(orders):
    found = defaultdict(lambda: [0, None])
    for (_, name, amount), count in orders.items():
        found[name][0] += count
        if amount is not None:
            found[name][1] = (found[name][1] or 0) + amount * count
    return Counter({(name, *values): 1 for name, values in found.items()})


@pytest.mark.parametrize("seed", range(15))
def test_groups_of_changes(seed, tmp_path):
    rng = random.Random(seed)
    changes, live = random_changes(rng, 200, order)
    node = total(scan("orders", ORDERS), "customer", "amount")
    found, driver = run(flow_of(node, tmp_path), {0: (changes, ORDERS)}, rng, str(tmp_path) if seed % 2 else "")
    assert found == totals(live)
    assert set(driver.manifest.operators) == {"totals"}


@pytest.mark.parametrize("seed", range(15))
def test_groups_of_joined_changes(seed, tmp_path):
    rng = random.Random(seed)
    orders, live_orders = random_changes(rng, 150, order)
    customers, live_customers = random_changes(rng, 30, customer)
    node = total(joined(scan("orders", ORDERS), scan("customers", CUSTOMERS)), "country", "amount")
    found, _ = run(flow_of(node, tmp_path), {0: (orders, ORDERS), 1: (customers, CUSTOMERS)}, rng)
    pairs = Counter()
    for (number, name, amount), count in live_orders.items():
        matches = [(country, times) for (other, country), times in live_customers.items() if other == name]
        for country, times in matches or [(None, 1)]:
            pairs[number, country, amount] += count * times
    assert found == totals(pairs)


@pytest.mark.parametrize("seed", range(5))
def test_a_union_feeds_one_group(seed, tmp_path):
    rng = random.Random(seed)
    first, live_first = random_changes(rng, 60, order)
    second, live_second = random_changes(rng, 60, order)
    union = Union(ORDERS, (scan("orders", ORDERS), scan("more", ORDERS)))
    flow = flow_of(total(union, "customer", "amount"), tmp_path)
    found, _ = run(flow, {0: (first, ORDERS), 1: (second, ORDERS)}, rng)
    assert found == totals(live_first + live_second)


def test_groups_of_groups_stay_in_their_task(tmp_path):
    inner = total(scan("orders", ORDERS), "customer", "amount", uid="inner")
    flow = flow_of(total(inner, "customer", "total", uid="outer"), tmp_path)
    assert [vertex.stage for vertex in flow.vertices] == [1, 1, 1]


@pytest.mark.parametrize("in_files", [True, False])
def test_an_owner_of_many_rows_takes_them_in_parts(in_files, tmp_path):
    changes, live = random_changes(random.Random(4), 200, order)
    flow = flow_of(total(scan("orders", ORDERS), "customer", "amount"), tmp_path)
    driver = Driver(flow, str(tmp_path) if in_files else "", batch=1, sizes=(100, 500, 2))
    parts = [[encoded(changes[start : start + 10], ORDERS, start)] for start in range(0, 200, 10)]
    found = applied(Counter(), driver.run([(0, part) for part in parts], 2))
    assert +found == totals(live)
    (segments,) = driver.manifest.operators["totals"].values()
    assert len({each.low for each in segments}) > 2
    assert not list(tmp_path.glob("*.spill"))


def test_each_batch_of_an_aborted_attempt_leaves_only_files(tmp_path):
    rng = random.Random(3)
    changes, live = random_changes(rng, 100, order)
    flow = flow_of(total(scan("orders", ORDERS), "customer", "amount"), tmp_path)
    driver, table = Driver(flow), Counter()
    for start in range(0, 100, 20):
        part = encoded(changes[start : start + 20], ORDERS, start)
        before = driver.manifest
        driver.run([(0, [part])], 2)
        driver.manifest = before  # the attempt is not committed
        table = applied(table, driver.run([(0, [part])], 3))
    assert +table == totals(live)


@pytest.mark.parametrize("owners", [1, 2])
def test_each_target_gets_the_rows_of_its_own_outputs(tmp_path, owners):
    """Also when there are more targets than owners."""
    orders = scan("orders", ORDERS)
    planner, outputs = Planner((orders,)), []
    for number, key in enumerate(("customer", "id", "customer")):
        node = total(orders, key, "amount", uid=f"totals-{number}")
        takes = SinkCapabilities(kinds=CHANGES, guarantee=Guarantee.NONE)
        sink = Sink(node.schema, node, f"out-{number}", "values", Written(f"out-{number}", node.schema, takes))
        planner.add(sink, number)
        outputs.append(Output(number, sink.table, sink.spec, node.schema))
    targets = tuple(Target((number,), PASSING) for number in range(3))
    flow = Dataflow(tuple(planner.branches), planner.ordered(), tuple(outputs), str(tmp_path), targets)
    changes = [(RowKind.INSERT, (number, "ab"[number % 2], 1)) for number in range(6)]
    driver = Driver(flow)
    driver.run([(0, [encoded(changes, ORDERS, 0)])] * owners, owners)
    found = {target: driver.results(target) for target in range(3)}
    counts = {target: sum(each.num_rows for each in batches) for target, batches in found.items()}
    assert counts == {0: 2, 1: 6, 2: 2}
    assert [batches[0].schema.names[0] for batches in found.values()] == ["customer", "id", "customer"]
