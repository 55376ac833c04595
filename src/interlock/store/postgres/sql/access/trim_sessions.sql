-- Delete some of the oldest sessions or links of a token above a number.
DELETE FROM interlock.sessions WHERE id = ANY(ARRAY(SELECT id FROM interlock.sessions WHERE token = %(token)s AND kind = %(kind)s
    ORDER BY created_us DESC, id DESC LIMIT 100 OFFSET %(most)s))
RETURNING id
