-- The stored data of lanes: wake-ups since a person's last message, with the last counted run; the agent of the last run; the gate; whether they are blocked.
SELECT lane, streak, streak_run, last_agent, gate_series, gate_open, gate_exempt, gate_us, blocked FROM lanes
WHERE (streak > 0 OR last_agent IS NOT NULL OR gate_series IS NOT NULL OR blocked = 1) AND lane IN (SELECT value FROM json_each(:lanes))
