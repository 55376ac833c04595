-- A message says when it was written, by a text that sorts the messages of one source.
-- Serves: 32

ALTER TABLE messages ADD COLUMN said TEXT NOT NULL DEFAULT '';
