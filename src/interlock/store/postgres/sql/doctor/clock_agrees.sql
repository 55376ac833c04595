-- The store's clock is within a minute of the server's.
-- mend: Schedules follow the store's clock. While no run is live, UPDATE interlock.clock SET offset_us = 0 sets it to the server's.
SELECT 'it is ' || round(offset_us / 1000000.0) || ' s off' FROM interlock.clock WHERE abs(offset_us) > 60000000
