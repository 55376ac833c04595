-- A message says when it was written, by a text that sorts the messages of one source.
-- Serves: 36

ALTER TABLE interlock.messages ADD COLUMN said text NOT NULL DEFAULT '';
