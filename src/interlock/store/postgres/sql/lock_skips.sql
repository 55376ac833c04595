-- Wait for the turn to skip run numbers. A statement after this one sees what the process before has skipped.
-- `leap` locks the row `identity` with the rights of the schema's owner, and goes nowhere for a number that is given out already.
SELECT interlock.leap(0, 0, 0, NULL)
