-- Keep the numbers of a minute, unless another process did.
INSERT INTO interlock.trend (minute, ready, waiting, running, oldest_us, arrivals, claims, completions, failures)
SELECT %(minute)s, %(ready)s, %(waiting)s, %(running)s, %(oldest_us)s, %(arrivals)s, %(claims)s, %(completions)s, %(failures)s
WHERE interlock.expect({schema})
ON CONFLICT DO NOTHING
