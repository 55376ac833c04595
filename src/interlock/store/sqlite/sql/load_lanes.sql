-- What lanes remember: wake-ups since a person's last message, with the run that was counted last, and who ran them last.
SELECT lane, streak, streak_run, last_agent FROM lanes
WHERE (streak > 0 OR last_agent IS NOT NULL) AND lane IN (SELECT value FROM json_each(:lanes))
