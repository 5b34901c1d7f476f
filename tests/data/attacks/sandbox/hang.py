# Tries: never end.
# Success: the call lasts longer than its limit.
while True:
    pass
