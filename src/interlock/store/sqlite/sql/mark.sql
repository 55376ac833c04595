-- The position of the notices of one name.
SELECT seq, until_us, tries FROM marks WHERE name = :notice
