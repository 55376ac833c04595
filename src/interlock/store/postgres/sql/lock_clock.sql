-- One process at a time corrects the clock.
SELECT offset_us FROM interlock.clock FOR UPDATE
