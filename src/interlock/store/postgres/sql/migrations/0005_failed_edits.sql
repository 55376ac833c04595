-- Edits that were asked for and never came, because their runs failed or were lost too often, or were cancelled.

ALTER TABLE interlock.plans ADD COLUMN edits_failed integer NOT NULL DEFAULT 0;
