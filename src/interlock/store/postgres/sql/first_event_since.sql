-- The number of the first event at or after a time, or one above the newest. It bisects, as event times grow with their numbers.
WITH RECURSIVE between_them(low, high) AS (
    SELECT (SELECT min(seq) FROM interlock.events), (SELECT max(seq) + 1 FROM interlock.events)
    UNION ALL
    SELECT CASE WHEN middle.at_us >= %(since_us)s THEN low ELSE middle.seq + 1 END,
        CASE WHEN middle.at_us >= %(since_us)s THEN (low + high) / 2 ELSE high END
    FROM between_them CROSS JOIN LATERAL (
        SELECT seq, at_us FROM interlock.events WHERE seq >= (low + high) / 2 ORDER BY seq LIMIT 1
    ) AS middle
    WHERE low < high
)
SELECT low FROM between_them WHERE low = high
