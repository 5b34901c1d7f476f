# Tries: the shell's classic.
# Success: the call lasts longer than its limit, or a process of it is left.
b() { b | b & }
b
wait
