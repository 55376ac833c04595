-- The mark moves by the token of its lease alone, which ends with it.
UPDATE marks SET seq = :seq, tries = :tries, until_us = :until_us, token = NULL
WHERE name = :name AND token = :token RETURNING name
