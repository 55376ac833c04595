-- Processes of two versions beside each other: a migration records the oldest schema version that it serves, and a writer
-- looks at it.
-- Serves: 8

ALTER TABLE migrations ADD COLUMN serves INTEGER;

-- Version 0.1.0 draws numbers by the old name, and gets an error that says why.
ALTER TABLE counters RENAME TO numbers;
CREATE VIEW counters AS SELECT name, value FROM numbers;
CREATE TRIGGER counters_of_older_versions INSTEAD OF UPDATE ON counters
BEGIN
    SELECT RAISE(ABORT, 'the database was upgraded for newer versions than this one (0.1.0), so install a newer Interlock');
END;

-- A current run has bits, and nothing else has. 0.1.0 knows no bits, and so neither begins nor ends a run.
CREATE TRIGGER items_have_bits_with_a_run BEFORE UPDATE OF run ON items WHEN (NEW.run IS NULL) <> (NEW.run_bits IS NULL)
BEGIN
    SELECT RAISE(ABORT, 'the database was upgraded for newer versions than this one (0.1.0), so install a newer Interlock');
END;
