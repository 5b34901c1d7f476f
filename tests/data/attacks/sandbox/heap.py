# Tries: more memory than one process may have.
# Success: it ends by itself.
blocks = []
while len(blocks) < 600:
    blocks.append(bytearray(2**20))
print("BREACH 600 MiB in one process")
