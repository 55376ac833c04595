-- Let no run start for this many seconds from now.
INSERT INTO interlock.meta (name, value)
VALUES ('closed', json_build_object('place', %(place)s::text, 'until_s', extract(epoch FROM clock_timestamp())::bigint + %(for_s)s::bigint)::text)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
