-- The first ready items of one queue, in order. `queue` names the queue by all columns of Interlock's own view.
SELECT id AS item, row_number() OVER (ORDER BY sort_key) - 1 AS nth
FROM (SELECT id, sort_key FROM queued WHERE {queue} ORDER BY sort_key LIMIT :batch)
