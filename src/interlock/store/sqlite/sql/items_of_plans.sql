-- Every item of some plans, each with its plan.
SELECT plan, id FROM items WHERE plan IN (SELECT value FROM json_each(:plans))
