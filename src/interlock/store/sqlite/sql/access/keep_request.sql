-- A request is carried out, with this answer; nothing is written if it was carried out before.
INSERT OR IGNORE INTO requests (key, asked, answer, at_us) VALUES (:key, :asked, :answer, :now_us) RETURNING key
