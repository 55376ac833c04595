-- Another lane of a series that is open or has a run that is not exempt; the first of several. The series' lane is
-- locked, so none opens meanwhile.
SELECT l.lane FROM lanes l WHERE l.gate_series IS NOT NULL AND l.gate_series = :series AND l.lane <> :lane AND (l.gate_open = 1
    OR EXISTS (SELECT 1 FROM owners o WHERE o.lane = l.lane AND o.run IS NOT NULL
        AND o.type NOT IN (SELECT value FROM json_each(l.gate_exempt))))
ORDER BY l.lane LIMIT 1
