-- Who sells in one category, in three states: a join of all that ever came.
CREATE TABLE answer (
  name STRING,
  city STRING,
  state STRING,
  id BIGINT
) WITH (${answer});

INSERT INTO answer
SELECT P.name, P.city, P.state, A.id
FROM auction AS A
INNER JOIN person AS P ON A.seller = P.id
WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA');
