-- Bids with a value that is looked up in a table outside of the job.
CREATE TABLE side_input (
  key BIGINT,
  `value` STRING
) WITH (${side_input});

CREATE TABLE answer (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  `dateTime` TIMESTAMP(3),
  `value` STRING
) WITH (${answer});

INSERT INTO answer
SELECT B.auction, B.bidder, B.price, B.`dateTime`, S.`value`
FROM (SELECT *, PROCTIME() AS p_time FROM bid) B
JOIN side_input FOR SYSTEM_TIME AS OF B.p_time AS S ON MOD(B.auction, 10000) = S.key;
