-- Skip run numbers past a fence that this store, or one it was copied from, raised and then lost.
SELECT interlock.leap(%(past)s, %(last_run)s, %(run)s, %(lane)s)
