# Tries: swallow every exception, so that none that ends a cell comes through.
# Success: the call lasts longer than its limit.
import time


def again():
    try:
        while True:
            time.sleep(0.01)
    except BaseException:
        again()
    finally:
        again()


again()
