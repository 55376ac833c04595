-- Each statement that writes an item looks at four indexes less, and one end checks its record for less.
-- Serves: 41

-- Every index costs such a statement the same, whether it holds an entry or not. So indexes whose items differ in a column share one,
-- which begins with that column. Blocked items are looked for by nobody but the doctor.
DROP INDEX interlock.items_blocked;

-- Items behind a gate, and items that wait for a person after too many wake-ups: their lanes.
CREATE INDEX items_held ON interlock.items (gated, lane) WHERE gated OR (status = 'waiting' AND reason = 'loop');
DROP INDEX interlock.items_gated;
DROP INDEX interlock.items_stopped;

-- Items with external runs, by these, and behind them items that wait for a person's answer, which have no run.
CREATE INDEX items_outside ON interlock.items (run, id)
    WHERE (status = 'in_progress' AND lease_until_us IS NULL) OR (status IN ('waiting', 'pending') AND reason = 'asked');
DROP INDEX interlock.items_external;
DROP INDEX interlock.items_asking;

-- Deferred items by agent and lane, and those that wait for another attempt.
CREATE INDEX items_kin ON interlock.items (status, agent_key, lane, position, ticket, id)
    WHERE status = 'deferred' OR (status = 'waiting' AND first_claimed_us IS NOT NULL AND due_us IS NOT NULL);
DROP INDEX interlock.items_behind;
DROP INDEX interlock.items_retries;

-- The same condition as a function. PostgreSQL reads the text of a constraint in each statement that writes a row, and a list of words
-- is long: it took a fifteenth of an end.
CREATE FUNCTION interlock.ends_a_run(status text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN status IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost', 'released');
END $$;
ALTER TABLE interlock.runs DROP CONSTRAINT runs_status_check;
ALTER TABLE interlock.runs ADD CONSTRAINT runs_status_check CHECK (interlock.ends_a_run(status));

-- The store's time by an offset that the statement has read: as one expression it becomes part of the statement. Whoever corrects the clock
-- keeps other transactions from locking items, so the offset is the same until the statement ends.
CREATE FUNCTION interlock.clock_us(offset_us bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_us
$$;
CREATE OR REPLACE FUNCTION interlock.clock_us() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN interlock.clock_us((SELECT offset_us FROM interlock.clock));
END $$;
