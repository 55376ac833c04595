-- Set the wake-ups in a row of a lane, as decided.
UPDATE lanes SET streak = ?2, streak_run = ?3 WHERE lane = ?1
