-- The store's clock.
SELECT interlock.clock_us()
