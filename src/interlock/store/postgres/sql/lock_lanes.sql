-- Lock the lanes of the named items, the lanes that guard their plans, and the given lanes until this transaction ends, in a fixed
-- order. An item never changes its lane or its plan, so this needs no second check. Gives the transaction's number, which shows
-- later whether it was committed, and the lanes. Rows with stored data also have the wake-ups, the agent of the last run, the gate
-- and whether the lane is blocked.
WITH named AS MATERIALIZED (
    SELECT coalesce(lane, observed_lane) AS lane, plan FROM interlock.items WHERE id = ANY((SELECT %(items)s::bigint[])::bigint[])
),
locked AS MATERIALIZED (
    SELECT lane, streak, streak_run, last_agent, gate_series, gate_open, gate_exempt, gate_us, blocked FROM interlock.lanes WHERE lane = ANY(ARRAY(
        SELECT unnest((SELECT %(lanes)s::text[]))
        UNION SELECT lane FROM named WHERE lane IS NOT NULL
        UNION SELECT 'plan:' || plan FROM named WHERE plan IS NOT NULL
    )) ORDER BY lane FOR NO KEY UPDATE
)
SELECT pg_current_xact_id()::text::bigint, waited.lanes, waited.known FROM (
    SELECT array_agg(lane) AS lanes,
        array_agg(ARRAY[lane, streak::text, coalesce(streak_run::text, ''), coalesce(last_agent, ''),
            CASE WHEN gate_series IS NULL THEN '' ELSE json_build_array(gate_series, gate_open, gate_exempt, gate_us)::text END, blocked::text])
            FILTER (WHERE streak > 0 OR last_agent IS NOT NULL OR gate_series IS NOT NULL OR blocked) AS known
    FROM locked
) AS waited
WHERE interlock.expect({schema})
