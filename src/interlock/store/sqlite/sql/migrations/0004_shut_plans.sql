-- An owner whose plan gives out no tasks does not shut its lane for others: which plans those are, and what of a plan owns
-- a lane without having started, each found without looking at anything else.

CREATE INDEX plans_shut ON plans (id) WHERE ended_us IS NULL AND (cycle_us IS NOT NULL OR paused_why IS NOT NULL);
CREATE INDEX items_owed_task ON items (plan)
    WHERE status = 'pending' AND lane IS NOT NULL AND plan IS NOT NULL;
