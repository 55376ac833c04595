-- Lock the clock: one process at a time corrects it.
SELECT offset_us FROM interlock.clock FOR UPDATE
