-- How many items of the lane go before this one, up to :most. They are the first of its line.
SELECT count(*) FROM (
    SELECT front, position, ticket, id FROM items WHERE status = 'deferred' AND lane = :lane
    ORDER BY front DESC, position, ticket, id LIMIT :most)
WHERE (NOT front, position, ticket, id) < (NOT :front, :position, :ticket, :id)
