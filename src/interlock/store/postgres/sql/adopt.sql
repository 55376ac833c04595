-- If the database was moved, restored or failed over, its numbers go on above all that may have been given out before.
SELECT interlock.adopt(%(last_run)s)
