-- The mark is leased to one: it is where it was seen, and nobody's lease or wait holds it.
UPDATE marks SET token = :token, until_us = :until_us
WHERE name = :name AND seq = :seq AND tries = :tries AND until_us <= :now_us RETURNING name
