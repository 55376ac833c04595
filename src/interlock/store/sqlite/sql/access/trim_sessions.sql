-- Delete some of the oldest sessions or links of a token above a number.
DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE token = :token AND kind = :kind
    ORDER BY created_us DESC, id DESC LIMIT 100 OFFSET :most)
RETURNING id
