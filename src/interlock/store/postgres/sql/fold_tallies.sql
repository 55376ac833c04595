-- Up to 10,000 changes of counts are added to the counts. If several processes fold at once, one does and the others skip it.
WITH taken AS MATERIALIZED (
    SELECT ctid FROM interlock.tally_changes
    WHERE (SELECT pg_try_advisory_xact_lock(hashtext('interlock.tallies'))) AND interlock.expect({schema}) LIMIT 10000
),
folded AS (
    DELETE FROM interlock.tally_changes WHERE ctid = ANY(ARRAY(SELECT ctid FROM taken)) RETURNING status, priority, n
)
INSERT INTO interlock.tallies AS t (status, priority, n)
SELECT status, priority, sum(n) FROM folded GROUP BY status, priority ORDER BY status, priority
ON CONFLICT (status, priority) DO UPDATE SET n = t.n + excluded.n
