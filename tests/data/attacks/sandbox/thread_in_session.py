# Tries: a thread of the session that goes on while no cell runs.
# Success: the session is not stopped between its cells.
import threading
import time


def write():
    while True:
        with open("/work/late", "a") as file:
            file.write("late")
        time.sleep(0.01)


threading.Thread(target=write, daemon=True).start()
print("ATTEMPTED")
