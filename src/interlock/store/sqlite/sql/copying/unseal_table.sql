-- Accept writes to a table again.
DROP TRIGGER IF EXISTS sealed_insert_{table};
DROP TRIGGER IF EXISTS sealed_update_{table};
DROP TRIGGER IF EXISTS sealed_delete_{table}
