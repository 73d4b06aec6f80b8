-- Bids with their day and minute, as text.
CREATE TABLE answer (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  `dateTime` TIMESTAMP(3),
  extra STRING,
  dt STRING,
  hm STRING
) WITH (${answer});

INSERT INTO answer
SELECT
  auction, bidder, price, `dateTime`, extra,
  DATE_FORMAT(`dateTime`, 'yyyy-MM-dd'), DATE_FORMAT(`dateTime`, 'HH:mm')
FROM bid;
