-- Every agent with its labels.
SELECT key, labels FROM interlock.agents
