# Tries: a power tower.
# Success: the call lasts longer than its limit.
9**9**9**9
