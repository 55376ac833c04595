-- Add events with the current time, each as the JSON of its columns, in a transaction that takes no further locks.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us, interlock.next_seq() AS seq WHERE interlock.expect({schema}))
INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, lane, agent, span_us, data)
SELECT seq + place - 1, now_us, line ->> 0, line ->> 1, line ->> 2, (line ->> 3)::bigint, (line ->> 4)::bigint, line ->> 5, line ->> 6,
    (line ->> 7)::bigint, line ->> 8
FROM clock, json_array_elements(%(rows)s::json) WITH ORDINALITY AS each(line, place)
