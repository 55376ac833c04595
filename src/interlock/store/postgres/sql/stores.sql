-- This store and its ancestors, each with whether it may still be in use; and the run number given out last.
SELECT id, state, (SELECT last_value FROM interlock.run_numbers) FROM interlock.stores
