-- Below this number no event can appear any more to statements that begin later; null on a standby, which cannot tell.
SELECT interlock.horizon()
