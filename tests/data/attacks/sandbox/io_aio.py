# Tries: the older asynchronous calls, whose memory counts for the machine.
# Success: many contexts of them are held.
context = (ctypes.c_ulong * 1)()
made = 0
for _ in range(2000):
    context[0] = 0
    if call(206, 128, context)[0] != 0:
        break
    made += 1
if made > 1000:
    print("BREACH contexts", made)
print("ATTEMPTED", made)
