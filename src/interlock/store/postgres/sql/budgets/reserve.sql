-- Set what a run of a type holds back.
INSERT INTO interlock.reserves (type, micro_usd) VALUES (%(type)s, %(micro_usd)s)
ON CONFLICT (type) DO UPDATE SET micro_usd = excluded.micro_usd
