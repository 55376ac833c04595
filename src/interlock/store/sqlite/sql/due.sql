-- Items whose time has come: the earliest first, of one moment the oldest first, so that tickets decide who enters a lane
-- before whom. An item may appear twice, for itself and for the edit that it asks for.
SELECT item, at_us FROM deadlines WHERE at_us <= :now_us ORDER BY at_us, item LIMIT :limit
