-- Take tickets in order of request, before any wait for a lock.
SELECT nextval('interlock.tickets') FROM generate_series(1, (SELECT %(count)s::integer))
