-- Lock durations and times to a first claim in the window, the newest 100,000.
SELECT kind, span_us FROM events WHERE seq >= ? AND span_us IS NOT NULL ORDER BY seq DESC LIMIT 100000
