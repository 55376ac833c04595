-- A message says why it came, by a name, and where it was written.
-- Serves: 25

ALTER TABLE interlock.messages ADD COLUMN reason text NOT NULL DEFAULT '';
ALTER TABLE interlock.messages ADD COLUMN url text NOT NULL DEFAULT '';
