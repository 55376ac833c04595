-- The store's time is the server's clock and an offset, into which steps of the clock are taken.
-- Serves: 10

-- One row. Read with every reading of the clock, written when somebody has set it.
CREATE TABLE interlock.clock (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    offset_us bigint NOT NULL
);
INSERT INTO interlock.clock (offset_us) VALUES (0);

-- The store's time in microseconds since 1970: now, and not at the start of the transaction.
CREATE OR REPLACE FUNCTION interlock.clock_us() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + (SELECT offset_us FROM interlock.clock);
END $$;
