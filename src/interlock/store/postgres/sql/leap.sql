-- Run numbers go on after a fence that this store, or one that it comes from, raised and has forgotten.
SELECT interlock.leap(%(past)s, %(last_run)s, %(run)s, %(lane)s)
