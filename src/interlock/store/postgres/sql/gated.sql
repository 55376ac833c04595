-- Items that could be claimed if the gate of their lane were open, in order of their lanes.
SELECT * FROM (SELECT * FROM interlock.items WHERE gated ORDER BY lane LIMIT (SELECT %(limit)s::integer)) AS behind WHERE status = 'pending' ORDER BY lane
