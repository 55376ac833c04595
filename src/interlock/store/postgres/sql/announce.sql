-- A writer of the history is seen as one before it gets a transaction number; `horizon` rests on that.
LOCK TABLE interlock.events IN ROW EXCLUSIVE MODE
