-- Delete some expired sessions and links.
DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE expires_us <= :now_us ORDER BY expires_us LIMIT :limit)
RETURNING id
