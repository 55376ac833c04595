-- Refuse all writes to a table, by any version, with an error that names the new place.
CREATE TRIGGER sealed_insert_{table} BEFORE INSERT ON {table}
BEGIN SELECT RAISE(ABORT, 'This store is sealed for its copy to {place}, and takes no more writes.'); END;
CREATE TRIGGER sealed_update_{table} BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, 'This store is sealed for its copy to {place}, and takes no more writes.'); END;
CREATE TRIGGER sealed_delete_{table} BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, 'This store is sealed for its copy to {place}, and takes no more writes.'); END
