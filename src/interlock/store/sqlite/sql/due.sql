-- Due items: the earliest first, then the oldest, so that tickets decide the order in which items enter a lane. An item may
-- appear twice, for itself and for the edit that it requests.
SELECT item, at_us FROM deadlines WHERE at_us <= :now_us ORDER BY at_us, item LIMIT :limit
