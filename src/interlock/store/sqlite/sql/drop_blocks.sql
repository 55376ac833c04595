-- Items that have ended have no blocks of their own.
DELETE FROM blocks WHERE lane = '' AND item IN (SELECT value FROM json_each(:items))
