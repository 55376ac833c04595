-- The secret that makes handles unguessable, and what is added to event numbers after a restore.
SELECT name, value FROM interlock.meta
