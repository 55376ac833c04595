-- Lock durations and times to a first claim among the newest events from a number on.
SELECT kind, span_us FROM (
    SELECT seq, kind, span_us FROM events WHERE seq >= :seq ORDER BY seq DESC LIMIT :events
) AS newest
WHERE span_us IS NOT NULL ORDER BY seq DESC LIMIT :limit
