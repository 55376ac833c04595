-- Whether an event with this number and this time exists. After a crash another transaction may get the number.
SELECT EXISTS (SELECT 1 FROM interlock.events WHERE seq = %(seq)s AND at_us = %(at_us)s)
