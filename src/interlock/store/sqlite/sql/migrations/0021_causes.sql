-- A message says why it came, by a name, and where it was written.
-- Serves: 21

ALTER TABLE messages ADD COLUMN reason TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN url TEXT NOT NULL DEFAULT '';
