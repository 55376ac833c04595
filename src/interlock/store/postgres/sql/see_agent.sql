-- An agent that asks for work is known from then on; the time is kept to a few seconds, less than it may make no claim.
-- A time ahead of this one was written while the clock was wrong, and goes. Gives how long it may make no claim, as it was set.
WITH seen AS (
    INSERT INTO interlock.agents AS a (key, name, seen_us) SELECT %(key)s, %(name)s, %(now_us)s WHERE interlock.expect({schema})
    ON CONFLICT (key) DO UPDATE SET seen_us = excluded.seen_us
        WHERE coalesce(a.seen_us, 0) < excluded.seen_us - least(coalesce(nullif(a.overtake_after_s, 0), 60) * 62500, 4000000)::bigint
            OR a.seen_us > excluded.seen_us + 4000000
)
SELECT overtake_after_s FROM interlock.agents WHERE key = %(key)s
