-- Old items go: what refers to them is found without a walk through the tables.
-- Serves: 17

CREATE INDEX items_absorbed ON interlock.items (absorbed_by) WHERE absorbed_by IS NOT NULL;
CREATE INDEX items_of_plan ON interlock.items (plan) WHERE plan IS NOT NULL;
CREATE INDEX messages_origin ON interlock.messages (origin) WHERE origin <> item;
CREATE INDEX dedupe_keys_item ON interlock.dedupe_keys (item);
CREATE INDEX completions_item ON interlock.completions (item);
