"""Timestamps that are found in the values; they go along to the sink."""

from penstock.common import Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from tests.streams.ends import environment, read, write


class FromText(TimestampAssigner):
    """The second that a text begins with."""

    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        """In milliseconds, with those of the record."""
        return int(value.split(maxsplit=1)[0]) * 1000 + record_timestamp % 1000


env = environment()
later = read(env, "in").map(lambda text: f"{int(text.split()[0]) + 100} later", Types.STRING())
ascending = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FromText())
write(later.assign_timestamps_and_watermarks(ascending), "later")
env.execute("assigned_timestamps")
