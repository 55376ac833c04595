-- Delete the samples before a minute.
DELETE FROM trend WHERE minute < :minute
