"""Rows of JSON, changed by name and by position."""

from penstock.common import Row, Types
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tests.streams.ends import environment, read, write

ORDER = Types.ROW_NAMED(
    ["id", "item", "price", "paid"], [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()]
)
BILL = Types.ROW_NAMED(["item", "total", "first"], [Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()])


def billed(order: Row) -> Row:
    """The bill of an order."""
    total = None if order.price is None else order["price"] * 2
    return Row(order[1], total, order.id == 1)


env = environment()
orders = read(env, "in", JsonRowDeserializationSchema.builder().type_info(ORDER).build())
bills = orders.filter(lambda order: order.paid is not False).map(billed, BILL)
write(bills, "out", JsonRowSerializationSchema.builder().with_type_info(BILL).build())
env.execute("json_rows")
