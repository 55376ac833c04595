-- Another lane of a series that is open, or on which a run goes on that is not exempt; the first if there are several. The
-- series' lane is locked by an earlier statement, so this one sees every gate that was opened, and none opens meanwhile.
SELECT l.lane FROM interlock.lanes l WHERE l.gate_series IS NOT NULL AND l.gate_series = %(series)s AND l.lane <> %(lane)s AND (l.gate_open
    OR (SELECT o.id FROM interlock.items o WHERE o.lane = l.lane AND o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL
        AND o.run IS NOT NULL AND o.type <> ALL(l.gate_exempt) LIMIT 1) IS NOT NULL)
ORDER BY l.lane LIMIT 1
