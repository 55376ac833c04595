-- Changes of counts go into the counts. Of those who fold at once, one does, the others leave it alone.
WITH taken AS MATERIALIZED (
    SELECT ctid FROM interlock.tally_changes
    WHERE pg_try_advisory_xact_lock(hashtext('interlock.tallies')) LIMIT 10000
),
folded AS (
    DELETE FROM interlock.tally_changes WHERE ctid = ANY(ARRAY(SELECT ctid FROM taken)) RETURNING status, priority, n
)
INSERT INTO interlock.tallies AS t (status, priority, n)
SELECT status, priority, sum(n) FROM folded GROUP BY status, priority ORDER BY status, priority
ON CONFLICT (status, priority) DO UPDATE SET n = t.n + excluded.n
