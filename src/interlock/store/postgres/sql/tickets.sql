-- Tickets in order of asking, taken before any lock is waited for.
SELECT nextval('interlock.tickets') FROM generate_series(1, (SELECT %(count)s::integer))
