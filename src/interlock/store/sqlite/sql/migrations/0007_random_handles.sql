-- Sixty-four random bits for each run, beside its number: on its item while it lives, in `runs` afterwards. A write of a
-- run is accepted iff both are equal. Runs that were live before get bits that nobody holds: their holders have lost
-- their leases.

ALTER TABLE items ADD COLUMN run_bits INTEGER;
ALTER TABLE runs ADD COLUMN bits INTEGER;

UPDATE items SET run_bits = random() WHERE run IS NOT NULL;

-- Handles were made with it.
DELETE FROM meta WHERE name = 'handle_key';
