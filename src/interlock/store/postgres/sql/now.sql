-- The store's clock, and the offset in it.
SELECT interlock.clock_us(), offset_us FROM interlock.clock
