-- This store and its ancestors, each with whether it may still be in use; and the last run number given out.
SELECT id, state, (SELECT value FROM numbers WHERE name = 'run') FROM stores
