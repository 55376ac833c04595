-- If the database was moved, restored or failed over, continue its numbers above all that may have been given out.
SELECT interlock.adopt(%(last_run)s)
