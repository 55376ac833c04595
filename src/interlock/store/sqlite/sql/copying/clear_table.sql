-- Delete every row of a table. References are checked at the end of the transaction.
PRAGMA defer_foreign_keys = ON;
DELETE FROM {table}
