-- GitHub: which accounts runs write with, so that no agent wakes itself.
-- Serves: 38

-- Accounts at GitHub that runs on lanes write with, as their workers report them. Logins are in lower case.
CREATE TABLE interlock.github_accounts (
    run      bigint PRIMARY KEY,
    item     bigint NOT NULL,
    lane     text COLLATE "C" NOT NULL,
    account  text COLLATE "C" NOT NULL,
    since_us bigint NOT NULL
);
CREATE INDEX github_accounts_lane ON interlock.github_accounts (lane, account, run);
CREATE INDEX github_accounts_item ON interlock.github_accounts (item);
