-- Below this number no event can appear any more to statements that begin later: readers who stop here never skip a line.
SELECT interlock.horizon()
