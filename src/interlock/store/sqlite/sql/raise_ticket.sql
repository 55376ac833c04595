-- Tickets up to this one are used.
UPDATE numbers SET value = max(value, :ticket) WHERE name = 'ticket'
