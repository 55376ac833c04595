-- Add a block of a lane or an item. Writes nothing if it exists. An item is locked first, so that its events are in the order of
-- their times.
WITH locked AS MATERIALIZED (SELECT id FROM interlock.items WHERE id = %(item)s FOR NO KEY UPDATE)
INSERT INTO interlock.blocks AS b (lane, item, blocker, why, url, at_us)
SELECT %(lane)s, %(item)s, %(blocker)s, %(why)s, %(url)s, coalesce(%(now_us)s, interlock.clock_us()) FROM (SELECT count(*) FROM locked) AS waited
ON CONFLICT (lane, item, blocker) DO UPDATE SET why = excluded.why, url = excluded.url
    WHERE (b.why, b.url) IS DISTINCT FROM (excluded.why, excluded.url)
RETURNING blocker
