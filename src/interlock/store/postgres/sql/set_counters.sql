-- Set the counters of items, runs, tickets and events, so that numbers continue above these.
SELECT setval('interlock.item_ids', greatest(1, %(item)s)), setval('interlock.run_numbers', greatest(1, %(run)s)),
    setval('interlock.tickets', greatest(1, %(ticket)s)), setval('interlock.event_numbers', greatest(1, %(event)s >> 16))
