-- Lock durations and times to a first claim among the newest events from a number on.
SELECT kind, span_us FROM (
    SELECT seq, kind, span_us FROM interlock.events WHERE seq >= %(seq)s ORDER BY seq DESC LIMIT (SELECT %(events)s::integer)
) AS newest
WHERE span_us IS NOT NULL ORDER BY seq DESC LIMIT (SELECT %(limit)s::integer)
