-- How many items of the lane go before this one.
SELECT count(*) FROM items WHERE status = 'deferred' AND lane = :lane
    AND (NOT front, position, ticket, id) < (NOT :front, :position, :ticket, :id)
