"""Rows of CSV with another delimiter, and without quotes on the way out."""

from penstock.common import Row, Types
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from tests.streams.ends import environment, read, write

GIVEN = Types.ROW([Types.INT(), Types.STRING(), Types.DOUBLE()])
MADE = Types.ROW([Types.STRING(), Types.INT(), Types.DOUBLE()])

env = environment()
given = CsvRowDeserializationSchema.Builder(GIVEN).set_field_delimiter(";").set_null_literal("-").build()
made = CsvRowSerializationSchema.Builder(MADE).set_field_delimiter("|").set_null_literal("none").build()
rows = read(env, "in", given).map(lambda row: Row(row[1], row[0], row[2]), MADE)
write(rows, "out", made)
env.execute("csv_rows")
