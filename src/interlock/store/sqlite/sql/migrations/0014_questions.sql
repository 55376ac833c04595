-- Questions: what waits for the answer of a person is found without a look at all that waits.
-- Serves: 14

CREATE INDEX items_asking ON items (id) WHERE status IN ('waiting', 'pending') AND reason = 'asked';
