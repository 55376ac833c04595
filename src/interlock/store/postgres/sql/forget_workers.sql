-- Delete one ended worker, and some that were not seen for long.
DELETE FROM interlock.workers WHERE interlock.expect({schema}) AND (name = %(gone)s OR name IN (
    SELECT name FROM interlock.workers WHERE seen_us < coalesce(%(now_us)s, interlock.clock_us()) - %(kept_us)s
    ORDER BY seen_us LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
