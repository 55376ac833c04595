-- The time zone in which days begin, if one is set.
SELECT time_zone FROM calendars
