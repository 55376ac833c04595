-- The lanes that `lines` puts items on.
INSERT INTO interlock.lanes (lane)
SELECT 'line:' || number FROM generate_series(%(first)s::bigint, %(last)s::bigint, 2) AS number;
