-- Lanes with wake-ups since a person's last message: how many in a row, and the run that was counted last.
SELECT lane, streak, streak_run FROM lanes WHERE streak > 0 AND lane IN (SELECT value FROM json_each(:lanes))
