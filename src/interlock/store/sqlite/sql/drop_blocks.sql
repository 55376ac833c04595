-- Delete the own blocks of ended items.
DELETE FROM blocks WHERE lane = '' AND item IN (SELECT value FROM json_each(:items))
