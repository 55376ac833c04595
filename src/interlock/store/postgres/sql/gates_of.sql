-- The gates of these lanes.
SELECT lane, gate_series, gate_open, gate_exempt, gate_us FROM interlock.lanes
WHERE gate_us IS NOT NULL AND lane = ANY(%(lanes)s::text[])
