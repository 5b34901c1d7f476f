# Tries: a bomb of threads.
# Success: more than 200 of them.
import threading
import time

threading.stack_size(32768)
count = 0
try:
    while count < 200:
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
        count += 1
    print("BREACH threads without end")
except (RuntimeError, MemoryError):
    pass
print("ATTEMPTED", count)
