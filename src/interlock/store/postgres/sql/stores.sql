-- This store and its ancestors, each with whether it may still be in use; and the last run number given out.
SELECT id, state, (SELECT last_value FROM interlock.run_numbers) FROM interlock.stores
