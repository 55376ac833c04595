-- Nobody locks or writes an item until this transaction ends; whoever did has ended. Taken first, so nobody waits in a ring.
LOCK TABLE interlock.items IN EXCLUSIVE MODE
