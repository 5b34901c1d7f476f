# Tries: leave daemons by the means of a shell.
# Success: a process of the call is left.
setsid sh -c 'sleep 0.3; echo late > /work/late; sleep 3600' >/dev/null 2>&1 </dev/null &
nohup sleep 3600 >/dev/null 2>&1 &
(sleep 3600 &)
echo ATTEMPTED
