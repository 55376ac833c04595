-- No item has stopped at the limit of automatic wake-ups.
-- mend: Look at it with interlock show ITEM; a message from a person restarts it: interlock msg ITEM TEXT.
SELECT 'item ' || id || coalesce(' on ' || lane, '') FROM items WHERE status = 'waiting' AND reason = 'loop' ORDER BY id
