-- Those of some plans that are still ended. Their lanes are locked in order, as for a change of a plan. Rows that others have
-- locked are skipped.
SELECT p.id FROM interlock.plans p JOIN interlock.lanes l ON l.lane = 'plan:' || p.id
WHERE p.id = ANY(%(plans)s::bigint[]) AND p.ended_us < %(before_us)s ORDER BY l.lane FOR UPDATE SKIP LOCKED
