-- A writer locks the history before it gets a transaction number; `horizon` relies on that.
LOCK TABLE interlock.events IN ROW EXCLUSIVE MODE
