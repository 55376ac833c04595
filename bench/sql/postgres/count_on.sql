-- Numbers go on after those of the items that are there, and the counts by status are theirs.
WITH numbered AS (
    SELECT setval('interlock.item_ids', %(last)s::bigint), setval('interlock.tickets', %(last)s::bigint),
        setval('interlock.event_numbers', (3 * %(last)s::bigint >> 16) + 1)
)
INSERT INTO interlock.tallies (status, priority, n)
SELECT status, priority, count(*) FROM interlock.items, numbered GROUP BY status, priority;
