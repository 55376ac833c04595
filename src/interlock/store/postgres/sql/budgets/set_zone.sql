-- Set the time zone in which days and months begin.
INSERT INTO interlock.calendars (name, time_zone) VALUES ('store', %(time_zone)s)
ON CONFLICT (name) DO UPDATE SET time_zone = excluded.time_zone
