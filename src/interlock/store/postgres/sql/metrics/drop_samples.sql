-- Delete the samples before a minute.
DELETE FROM interlock.trend WHERE minute < %(minute)s
