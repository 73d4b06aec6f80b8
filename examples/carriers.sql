-- Flights that left New York in 2013, counted: per carrier and day as the days end, and per carrier in total.
-- Counts are state: they are committed together with the rows and the offsets. `penstock demo` runs this file too.

SET 'pipeline.name' = 'carriers';
SET 'table.local-time-zone' = 'America/New_York';

CREATE TABLE flights (
  dep_time INT,                -- null: the flight was cancelled
  dep_delay INT,               -- minutes
  carrier STRING,
  distance BIGINT,             -- miles
  time_hour TIMESTAMP_LTZ(3),
  WATERMARK FOR time_hour AS time_hour - INTERVAL '1' HOUR
) WITH (
  'connector' = 'kafka',
  'topic' = '${topic_prefix}flights',
  'properties.bootstrap.servers' = '${bootstrap}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'scan.max-records-per-trigger' = '30000',
  'format' = 'json'
);

CREATE TABLE days (
  carrier STRING,
  `day` TIMESTAMP(3),          -- its midnight in New York
  flights BIGINT,
  `late` BIGINT
) WITH (
  'connector' = 'kafka',
  'topic' = '${topic_prefix}flights-days',
  'properties.bootstrap.servers' = '${bootstrap}',
  'format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = '${topic_prefix}flights'
);

CREATE TABLE carriers (
  carrier STRING,
  flights BIGINT,
  cancelled BIGINT,
  miles BIGINT,
  PRIMARY KEY (carrier) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = '${topic_prefix}flights-carriers',
  'properties.bootstrap.servers' = '${bootstrap}',
  'key.format' = 'json',
  'value.format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = '${topic_prefix}flights'
);

EXECUTE STATEMENT SET
BEGIN
  INSERT INTO days
  SELECT carrier, window_start, COUNT(*), COUNT(*) FILTER (WHERE dep_delay > 60)
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(time_hour), INTERVAL '1' DAY))
  GROUP BY carrier, window_start, window_end;

  INSERT INTO carriers
  SELECT carrier, COUNT(*), COUNT(*) FILTER (WHERE dep_time IS NULL), SUM(distance)
  FROM flights
  GROUP BY carrier;
END;
