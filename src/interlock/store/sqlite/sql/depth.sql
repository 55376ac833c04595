-- Pending items by priority, without those in a back-off.
SELECT priority, n FROM tallies WHERE status = 'pending' AND NOT scheduled AND n > 0 ORDER BY priority DESC
