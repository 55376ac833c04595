-- The gates of these lanes.
SELECT lane, gate_series, gate_open, gate_exempt, gate_us FROM lanes
WHERE gate_us IS NOT NULL AND lane IN (SELECT value FROM json_each(:lanes))
