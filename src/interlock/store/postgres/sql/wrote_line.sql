-- Whether a line of history is there and is the one meant: its number may be another's after a crash, its time not.
SELECT EXISTS (SELECT 1 FROM interlock.events WHERE seq = %(seq)s AND at_us = %(at_us)s)
