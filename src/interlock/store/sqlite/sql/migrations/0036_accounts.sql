-- GitHub: which accounts runs write with, so that no agent wakes itself.
-- Serves: 35

-- Accounts at GitHub that runs on lanes write with, as their workers report them. Logins are in lower case.
CREATE TABLE github_accounts (
    run      INTEGER PRIMARY KEY,
    item     INTEGER NOT NULL,
    lane     TEXT NOT NULL,
    account  TEXT NOT NULL,
    since_us INTEGER NOT NULL
) STRICT;
CREATE INDEX github_accounts_lane ON github_accounts (lane, account, run);
CREATE INDEX github_accounts_item ON github_accounts (item);
