-- Gates in order of their lanes: all, or those of one series.
(SELECT lane, gate_series, gate_open, gate_exempt, gate_us FROM interlock.lanes
WHERE gate_us IS NOT NULL AND %(series)s::text IS NULL ORDER BY lane LIMIT %(limit)s)
UNION ALL
(SELECT lane, gate_series, gate_open, gate_exempt, gate_us FROM interlock.lanes
WHERE gate_series IS NOT NULL AND gate_series = %(series)s ORDER BY lane LIMIT %(limit)s)
