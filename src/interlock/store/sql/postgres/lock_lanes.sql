-- The lanes are this transaction's until it ends, locked in one order by everyone.
SELECT lane FROM interlock.lanes WHERE lane = ANY(%(lanes)s::text[]) ORDER BY lane FOR NO KEY UPDATE
