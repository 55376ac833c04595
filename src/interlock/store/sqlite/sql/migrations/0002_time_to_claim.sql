-- An item may have to be claimed within a time once it is ready: else it ends, and its lane goes on.

ALTER TABLE items ADD COLUMN claim_by_us INTEGER CHECK (claim_by_us IS NULL OR (status = 'pending' AND due_us IS NULL));
ALTER TABLE items ADD COLUMN claim_within_s REAL
    CHECK (claim_within_s IS NULL OR status <> 'pending' OR (claim_by_us IS NULL) = (due_us IS NOT NULL));

CREATE INDEX items_unclaimed ON items (claim_by_us) WHERE status = 'pending' AND claim_by_us IS NOT NULL;
