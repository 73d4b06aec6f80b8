-- The average price of each seller's last auctions. Flink refuses it: OVER takes no rows that are taken back.
CREATE TABLE answer (
  seller BIGINT,
  avg_price BIGINT
) WITH (${answer});

INSERT INTO answer
SELECT
  Q.seller,
  AVG(Q.price) OVER (PARTITION BY Q.seller ORDER BY Q.`dateTime` ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
FROM (
  SELECT *
  FROM (
    SELECT
      A.id, A.seller, B.price, B.`dateTime`,
      ROW_NUMBER() OVER (PARTITION BY A.id, A.seller ORDER BY B.price DESC) AS rownum
    FROM auction AS A, bid AS B
    WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires
  )
  WHERE rownum <= 1
) AS Q;
