# Tries: x32 numbers, and numbers that the filter's list is too old for.
# Success: one is answered.
for number in (39, 101, 165, 250, 272, 512, 519, 521, 540, 547):
    child = os.fork()
    if child == 0:
        must_refuse(f"x32 {number}", 0x40000000 | number, 0, 0, 0, 0, 0, 0)
        os._exit(0)
    os.waitpid(child, 0)
for number in range(472, 640):
    must_refuse(str(number), number, 0, 0, 0, 0, 0, 0)
child = os.fork()
if child == 0:
    must_refuse("-1 as a number", 0xFFFFFFFF, 0, 0, 0)
    os._exit(0)
os.waitpid(child, 0)
print("ATTEMPTED")
