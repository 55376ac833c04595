-- Items that go are counted no longer.
INSERT INTO interlock.tally_changes (status, priority, n)
SELECT status, priority, -count(*) FROM interlock.items WHERE id = ANY(%(items)s::bigint[]) GROUP BY status, priority
