-- Lock durations and times to a first claim from a number on, the newest of them.
SELECT kind, span_us FROM interlock.events WHERE seq >= %(seq)s AND span_us IS NOT NULL
ORDER BY seq DESC LIMIT (SELECT %(limit)s::integer)
