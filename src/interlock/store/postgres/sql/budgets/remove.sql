-- Remove a budget. Gives its amount if there was one.
DELETE FROM interlock.budgets WHERE scope = %(scope)s AND name = %(name)s AND per = %(per)s RETURNING micro_usd
