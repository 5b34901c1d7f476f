# Tries: lines without end.
# Success: more is kept than the limit allows, or the reader stalls.
while True:
    print("flood " * 20)
