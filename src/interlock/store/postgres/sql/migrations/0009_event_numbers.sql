-- Event numbers follow the locks: a transaction draws its number after its last lock, not with its first.
-- Serves: 9

-- No cache: a number drawn later is greater, whichever connection asked.
CREATE SEQUENCE interlock.event_numbers;

-- The first number for the lines of a transaction that has locked all it will lock: seq = number << 16 + place. Before it
-- draws, it announces a lower bound of what it will draw, by a lock of its transaction that keeps nobody out: the number
-- drawn last by anyone, below the mark "il".
CREATE FUNCTION interlock.next_seq() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    drawn bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(0x696C::bigint << 48 | (SELECT last_value FROM interlock.event_numbers));
    drawn := nextval('interlock.event_numbers');
    RETURN drawn << 16;
END $$;

-- Below this number no line can appear any more to statements that begin later. The order matters: first what was drawn
-- last, then who has announced. A writer that is not seen there has ended, and its lines are visible; or it announces later,
-- and draws later still. Null on a standby, which does not see the announcements.
CREATE FUNCTION interlock.horizon() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    drawn bigint;
    announced bigint;
BEGIN
    drawn := (SELECT last_value FROM interlock.event_numbers);
    announced := (SELECT min(key & 0xFFFFFFFFFFFF) FROM (
        SELECT classid::bigint << 32 | objid::bigint AS key FROM pg_locks
        WHERE locktype = 'advisory' AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) AS held WHERE key >> 48 = 0x696C);
    RETURN CASE WHEN NOT pg_is_in_recovery() THEN least(drawn, announced) + 1 << 16 END;
END $$;

-- Until now the number of a transaction was the server's. Writers of the old kind have ended once the lock is given.
LOCK TABLE interlock.events IN EXCLUSIVE MODE;
SELECT setval('interlock.event_numbers', greatest(1, (SELECT max(seq) >> 16 FROM interlock.events)));
DELETE FROM interlock.meta WHERE name = 'event_base';
