-- Mark tickets up to this one as used.
UPDATE numbers SET value = max(value, :ticket) WHERE name = 'ticket'
