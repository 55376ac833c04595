-- Remove a budget. Gives its amount if there was one.
DELETE FROM budgets WHERE scope = :scope AND name = :name AND per = :per RETURNING micro_usd
