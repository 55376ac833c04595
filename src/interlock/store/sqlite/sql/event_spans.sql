-- Lock durations and times to a first claim in the window, the newest :most.
SELECT kind, span_us FROM events WHERE seq >= :first AND span_us IS NOT NULL ORDER BY seq DESC LIMIT :most
