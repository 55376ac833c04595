-- Questions of live runs: what waits for the answer of a person is found whether its run goes on or has ended.
-- Serves: 36

DROP INDEX items_asking;
CREATE INDEX items_asking ON items (id) WHERE reason = 'asked';
