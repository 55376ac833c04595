-- Let no run start for this many seconds from now.
INSERT INTO meta (name, value) VALUES ('closed', json_object('place', :place, 'until_s', unixepoch() + :for_s))
ON CONFLICT (name) DO UPDATE SET value = excluded.value
