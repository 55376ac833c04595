-- Write the new facts of a number, unless a newer revision was written meanwhile. Gives the last place of its orders.
INSERT INTO interlock.github_numbers (repository, number, revision, facts, wanted, read_us, last_place)
SELECT %(repository)s, %(number)s, %(revision)s, %(facts)s, %(wanted)s, coalesce(%(now_us)s, interlock.clock_us()), %(count)s
WHERE interlock.expect({schema})
ON CONFLICT (repository, number) DO UPDATE
SET revision = excluded.revision, facts = excluded.facts, wanted = excluded.wanted, read_us = excluded.read_us,
    last_place = github_numbers.last_place + excluded.last_place
WHERE github_numbers.revision = excluded.revision - 1
RETURNING last_place
