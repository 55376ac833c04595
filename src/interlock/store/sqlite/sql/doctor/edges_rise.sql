-- Every edge leads to a higher rank, so no plan has a cycle.
-- mend: This must not happen; keep a copy of the database and report it.
SELECT 'plan ' || e.plan || ', items ' || e.source || ' and ' || e.target FROM edges e
JOIN tasks s ON s.item = e.source JOIN tasks t ON t.item = e.target WHERE s.rank >= t.rank
