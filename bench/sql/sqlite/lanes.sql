-- The lanes that `lines` puts items on.
WITH RECURSIVE series (number) AS (
    SELECT :first UNION ALL SELECT number + 2 FROM series WHERE number + 2 <= :last
)
INSERT INTO lanes (lane) SELECT 'line:' || number FROM series;
