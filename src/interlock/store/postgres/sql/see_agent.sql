-- Record when an agent claims, to within a few seconds, which is less than it may be silent. A later time was written by a wrong
-- clock, and is replaced. Gives the setting for how long it may be silent.
WITH seen AS (
    INSERT INTO interlock.agents AS a (key, name, seen_us) SELECT %(key)s, %(name)s, %(now_us)s WHERE interlock.expect({schema})
    ON CONFLICT (key) DO UPDATE SET seen_us = excluded.seen_us
        WHERE coalesce(a.seen_us, 0) < excluded.seen_us - least(coalesce(nullif(a.overtake_after_s, 0), 60) * 62500, 4000000)::bigint
            OR a.seen_us > excluded.seen_us + 4000000
)
SELECT overtake_after_s FROM interlock.agents WHERE key = %(key)s
