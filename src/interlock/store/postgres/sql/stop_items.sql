-- Keep other transactions from locking or writing items until this one ends. Taken first, so that there is no deadlock.
LOCK TABLE interlock.items IN EXCLUSIVE MODE
