-- The store's clock.
SELECT interlock.now_us()
