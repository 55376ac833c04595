-- On a lane, and for an item, a later run has the greater number.
WITH started AS (
    SELECT s.run, s.seq, i.id, i.lane,
        lag(s.run) OVER (PARTITION BY i.id ORDER BY s.seq) AS before_of_item,
        CASE WHEN i.lane IS NOT NULL THEN lag(s.run) OVER (PARTITION BY i.lane ORDER BY s.seq) END AS before_on_lane
    FROM events s JOIN items i ON i.id = s.item WHERE s.kind = 'run.started'
)
SELECT id, lane, run, before_of_item, before_on_lane FROM started WHERE run <= before_of_item OR run <= before_on_lane
