-- A message says what kind of somebody wrote it, and which agent. What came before counts as written by people.
-- Serves: 13

ALTER TABLE interlock.messages
    ADD COLUMN sender text NOT NULL DEFAULT 'person' CHECK (sender IN ('person', 'agent', 'bot', 'system')),
    ADD COLUMN agent  text NOT NULL DEFAULT '',
    ADD CHECK ((sender = 'agent') = (agent <> ''));
