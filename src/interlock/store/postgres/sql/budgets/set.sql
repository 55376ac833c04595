-- Set how much one may spend in each day or month.
INSERT INTO interlock.budgets (scope, name, per, micro_usd, when_spent)
VALUES (%(scope)s, %(name)s, %(per)s, %(micro_usd)s, %(when_spent)s)
ON CONFLICT (scope, name, per) DO UPDATE SET micro_usd = excluded.micro_usd, when_spent = excluded.when_spent
