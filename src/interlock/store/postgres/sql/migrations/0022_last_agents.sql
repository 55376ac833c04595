-- Who ran each lane last, whose own arrivals start nothing there. Lanes whose runs ended before do not know it.
-- Serves: 22

ALTER TABLE interlock.lanes ADD COLUMN last_agent text;
