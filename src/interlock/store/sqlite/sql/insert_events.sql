-- Add events with the current time, each as the JSON of its columns.
INSERT INTO events (at_us, kind, reason, project, item, run, lane, agent, span_us, data)
SELECT :now_us, line.value ->> 0, line.value ->> 1, line.value ->> 2, line.value ->> 3, line.value ->> 4, line.value ->> 5, line.value ->> 6,
    line.value ->> 7, line.value ->> 8
FROM json_each(:rows) AS line ORDER BY line.key
