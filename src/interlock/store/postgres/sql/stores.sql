-- This store and its ancestors, each with whether it may still be in use.
SELECT id, state FROM interlock.stores
