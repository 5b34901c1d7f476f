# Tries: lines without end in the session.
# Success: more is kept than the limit allows, or the sandbox serves no more calls.
while True:
    print("flood " * 50)
