-- Move the mark, only by the token of its lease, which then ends.
UPDATE marks SET seq = :seq, tries = :tries, token = NULL, until_us = :now_us + :wait_us
WHERE name = :name AND token = :token RETURNING name
