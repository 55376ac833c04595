-- Items that could be claimed if the gate of their lane were open, in order of their lanes.
SELECT * FROM (SELECT * FROM items WHERE gated = 1 ORDER BY lane LIMIT :limit) AS behind WHERE status = 'pending' ORDER BY lane
