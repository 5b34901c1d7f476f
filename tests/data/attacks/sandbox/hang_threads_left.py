# Tries: end, with a thread that does not.
# Success: the call lasts longer than its limit, or the thread lives on.
import threading
import time

threading.Thread(target=time.sleep, args=(3600,)).start()
