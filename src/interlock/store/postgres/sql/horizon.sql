-- Below this number no more events can appear to later statements; null on a standby, which cannot tell.
SELECT interlock.horizon()
