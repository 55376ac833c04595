-- A change of counts says from which status to which items went, so that a claim and a finish append one row each and not two.
-- Serves: 40

-- So many items of this priority went from status `was` to `status`. Null: from or to none, as items are added, deleted, or change
-- their priority.
ALTER TABLE interlock.tally_changes ADD COLUMN was text COLLATE "C";
ALTER TABLE interlock.tally_changes ALTER COLUMN status DROP NOT NULL;

-- What is to be added up to the number of items by status and priority.
CREATE VIEW interlock.tallied (status, priority, n) AS
    SELECT status, priority, n FROM interlock.tallies
    UNION ALL SELECT status, priority, n FROM interlock.tally_changes WHERE status IS NOT NULL
    UNION ALL SELECT was, priority, -n FROM interlock.tally_changes WHERE was IS NOT NULL;
