-- Questions of live runs: what waits for the answer of a person is found whether its run goes on or has ended.
-- Serves: 41

DROP INDEX interlock.items_asking;
CREATE INDEX items_asking ON interlock.items (id) WHERE reason = 'asked';
