-- Bids of each bidder in ten seconds of processing time. The result depends on when the query runs.
CREATE TABLE answer (
  bidder BIGINT,
  bid_count BIGINT,
  starttime TIMESTAMP(3),
  endtime TIMESTAMP(3)
) WITH (${answer});

CREATE VIEW B AS SELECT *, PROCTIME() AS p_time FROM bid;

INSERT INTO answer
SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE B, DESCRIPTOR(p_time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
