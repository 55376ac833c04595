-- Set the agent of the last run on a lane, as decided.
UPDATE lanes SET last_agent = ?2 WHERE lane = ?1
