# Tries: trace a child of its own, which lets some filters be passed.
# Success: it may.
child = os.fork()
if child == 0:
    must_refuse("ptrace traceme", 101, 0, 0, 0, 0)
    os._exit(0)
os.waitpid(child, 0)
print("ATTEMPTED")
