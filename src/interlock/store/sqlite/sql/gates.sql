-- Gates in order of their lanes: all, or those of one series.
SELECT lane, gate_series, gate_open, gate_exempt, gate_us FROM lanes
WHERE gate_series IS NOT NULL AND :series IS NULL
UNION ALL
SELECT lane, gate_series, gate_open, gate_exempt, gate_us FROM lanes
WHERE gate_series IS NOT NULL AND gate_series = :series
ORDER BY lane LIMIT :limit
