-- Questions of live runs: runs that wait for the answer of a person are found without a look at all that run.
-- Serves: 41

CREATE INDEX items_asking_live ON interlock.items (id) WHERE status = 'in_progress' AND reason = 'asked';
