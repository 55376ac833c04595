-- A message says what kind of somebody wrote it, and which agent. What came before counts as written by people.
-- Serves: 10

ALTER TABLE messages ADD COLUMN sender TEXT NOT NULL DEFAULT 'person' CHECK (sender IN ('person', 'agent', 'bot', 'system'));
ALTER TABLE messages ADD COLUMN agent TEXT NOT NULL DEFAULT '' CHECK ((sender = 'agent') = (agent <> ''));
