-- Set how much one may spend in each day or month.
INSERT INTO budgets (scope, name, per, micro_usd, when_spent)
VALUES (:scope, :name, :per, :micro_usd, :when_spent)
ON CONFLICT (scope, name, per) DO UPDATE SET micro_usd = excluded.micro_usd, when_spent = excluded.when_spent
