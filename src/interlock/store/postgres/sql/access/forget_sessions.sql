-- Delete some expired sessions and links.
DELETE FROM interlock.sessions WHERE id = ANY(ARRAY(SELECT id FROM interlock.sessions
    WHERE expires_us <= (SELECT coalesce(%(now_us)s, interlock.clock_us())) ORDER BY expires_us LIMIT %(limit)s))
RETURNING id
