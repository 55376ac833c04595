-- Events of the window by kind and reason.
SELECT kind, reason, count(*) FROM events WHERE seq >= :first GROUP BY kind, reason
