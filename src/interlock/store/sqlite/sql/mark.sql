-- How far the notices of one name have come.
SELECT seq, until_us, tries FROM marks WHERE name = :notice
