-- Who ran a lane last, as decided.
UPDATE lanes SET last_agent = ?2 WHERE lane = ?1
