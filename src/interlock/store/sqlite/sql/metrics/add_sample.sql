-- Keep the numbers of a minute, unless another process did.
INSERT INTO trend (minute, ready, waiting, running, oldest_us, arrivals, claims, completions, failures)
VALUES (:minute, :ready, :waiting, :running, :oldest_us, :arrivals, :claims, :completions, :failures)
ON CONFLICT DO NOTHING
