-- Flights that left New York in 2013: late departures to one topic, cancelled flights to another,
-- read once, written exactly once. `penstock demo` runs this file and checks the outcome.

SET 'pipeline.name' = 'flights';

CREATE TABLE flights (
  `year` INT,
  `month` INT,
  `day` INT,
  dep_time INT,                -- null: the flight was cancelled
  sched_dep_time INT,
  dep_delay INT,               -- minutes
  arr_time INT,
  sched_arr_time INT,
  arr_delay INT,
  carrier STRING,
  flight INT,
  tailnum STRING,
  origin STRING,
  dest STRING,
  air_time INT,
  distance INT,
  `hour` INT,
  `minute` INT,
  time_hour TIMESTAMP_LTZ(3)
) WITH (
  'connector' = 'kafka',
  'topic' = '${topic_prefix}flights',
  'properties.bootstrap.servers' = '${bootstrap}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'scan.max-records-per-trigger' = '30000',
  'format' = 'json'
);

CREATE TABLE delayed (
  carrier STRING,
  flight INT,
  origin STRING,
  dest STRING,
  time_hour TIMESTAMP_LTZ(3),
  dep_delay INT
) WITH (
  'connector' = 'kafka',
  'topic' = '${topic_prefix}flights-delayed',
  'properties.bootstrap.servers' = '${bootstrap}',
  'format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = '${topic_prefix}flights'
);

CREATE TABLE cancelled (
  carrier STRING,
  flight INT,
  origin STRING,
  dest STRING,
  time_hour TIMESTAMP_LTZ(3)
) WITH (
  'connector' = 'kafka',
  'topic' = '${topic_prefix}flights-cancelled',
  'properties.bootstrap.servers' = '${bootstrap}',
  'format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = '${topic_prefix}flights'
);

EXECUTE STATEMENT SET
BEGIN
  INSERT INTO delayed
  SELECT carrier, flight, origin, dest, time_hour, dep_delay FROM flights WHERE dep_delay > 60;

  INSERT INTO cancelled
  SELECT carrier, flight, origin, dest, time_hour FROM flights WHERE dep_time IS NULL;
END;
