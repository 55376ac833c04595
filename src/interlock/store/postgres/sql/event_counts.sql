-- Events from a number on by kind and reason, no more than the newest of them, and when the oldest of these happened.
SELECT kind, reason, count(*), min(at_us) FROM (
    SELECT kind, reason, at_us FROM interlock.events WHERE seq >= %(seq)s ORDER BY seq DESC LIMIT (SELECT %(limit)s::integer)
) AS newest
GROUP BY kind, reason
