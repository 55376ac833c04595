-- The last numbers allocated to items, runs, tickets and events.
SELECT
    (SELECT value FROM numbers WHERE name = 'item'),
    (SELECT value FROM numbers WHERE name = 'run'),
    (SELECT value FROM numbers WHERE name = 'ticket'),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)
