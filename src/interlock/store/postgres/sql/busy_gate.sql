-- Another lane of a series that is open or has a run that is not exempt; the first of several. An earlier statement has
-- locked the series' lane, so this one sees every opened gate, and none opens meanwhile.
SELECT l.lane FROM interlock.lanes l WHERE l.gate_series IS NOT NULL AND l.gate_series = %(series)s AND l.lane <> %(lane)s AND (l.gate_open
    OR (SELECT o.id FROM interlock.items o WHERE o.lane = l.lane AND o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL
        AND o.run IS NOT NULL AND o.type <> ALL(l.gate_exempt) LIMIT 1) IS NOT NULL)
ORDER BY l.lane LIMIT 1
