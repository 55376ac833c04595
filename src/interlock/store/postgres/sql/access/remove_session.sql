-- Delete a session or link; gives whether it was there.
DELETE FROM interlock.sessions WHERE id = %(id)s AND kind = %(kind)s RETURNING id
