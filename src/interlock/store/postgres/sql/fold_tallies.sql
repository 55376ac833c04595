-- Add up to 10,000 changes to the counts. If several processes fold at once, one does it and the others skip it.
WITH taken AS MATERIALIZED (
    SELECT ctid FROM interlock.tally_changes
    WHERE (SELECT pg_try_advisory_xact_lock(hashtext('interlock.tallies'))) AND interlock.expect({schema}) LIMIT 10000
),
folded AS (
    DELETE FROM interlock.tally_changes WHERE ctid = ANY(ARRAY(SELECT ctid FROM taken)) RETURNING was, status, priority, n
)
INSERT INTO interlock.tallies AS t (status, priority, n)
SELECT moved.status, priority, sum(moved.n)
FROM folded CROSS JOIN LATERAL (VALUES (folded.status, folded.n), (folded.was, -folded.n)) AS moved(status, n)
WHERE moved.status IS NOT NULL GROUP BY moved.status, priority ORDER BY moved.status, priority
ON CONFLICT (status, priority) DO UPDATE SET n = t.n + excluded.n
