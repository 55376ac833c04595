-- Lease the mark to one process, if it is unmoved and no lease or wait holds it.
UPDATE marks SET token = :token, until_us = :now_us + :lease_us
WHERE name = :name AND seq = :seq AND tries = :tries AND until_us <= :now_us RETURNING name
