-- Delete a session or link; gives whether it was there.
DELETE FROM sessions WHERE id = :id AND kind = :kind RETURNING id
