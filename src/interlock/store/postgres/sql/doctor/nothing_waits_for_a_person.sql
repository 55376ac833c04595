-- Nothing was woken so often in a row that it waits for a person.
-- mend: Look at it with interlock show ITEM; a message of a person starts it again: interlock msg ITEM TEXT.
SELECT 'item ' || id || coalesce(' on ' || lane, '') FROM interlock.items WHERE status = 'waiting' AND reason = 'loop' ORDER BY id
