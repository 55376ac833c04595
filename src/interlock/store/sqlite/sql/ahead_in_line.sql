-- The number of items ahead of this one on the lane, up to :limit. They are the first of its line.
SELECT count(*) FROM (
    SELECT front, position, ticket, id FROM items WHERE status = 'deferred' AND lane = :lane
    ORDER BY front DESC, position, ticket, id LIMIT :limit)
WHERE (NOT front, position, ticket, id) < (NOT :front, :position, :ticket, :id)
