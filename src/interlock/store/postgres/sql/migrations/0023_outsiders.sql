-- A message may be an outsider's: somebody who may speak, but not start work.
-- Serves: 23

ALTER TABLE interlock.messages
    DROP CONSTRAINT messages_sender_check,
    ADD CONSTRAINT messages_sender_check CHECK (sender IN ('person', 'agent', 'bot', 'system', 'outsider'));
