-- Set what a run of a type holds back.
INSERT INTO reserves (type, micro_usd) VALUES (:type, :micro_usd)
ON CONFLICT (type) DO UPDATE SET micro_usd = excluded.micro_usd
