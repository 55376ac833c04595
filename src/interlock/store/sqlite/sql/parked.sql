-- Items by priority that keep their lane during a back-off: pending, and not ready.
SELECT priority, n FROM tallies WHERE status = 'pending' AND scheduled
