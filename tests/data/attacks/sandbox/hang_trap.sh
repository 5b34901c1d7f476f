# Tries: a shell that traps the polite signals.
# Success: the call lasts longer than its limit.
trap '' INT TERM HUP QUIT ALRM USR1 USR2 XCPU PIPE
while :; do sleep 1000; done
