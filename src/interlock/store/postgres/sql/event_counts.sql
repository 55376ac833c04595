-- Events of the window by kind and reason.
SELECT kind, reason, count(*) FROM interlock.events WHERE seq >= %(seq)s GROUP BY kind, reason
