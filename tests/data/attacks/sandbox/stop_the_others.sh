# Tries: stop the server, the session and all others.
# Success: the sandbox serves no more calls.
kill -STOP -1 1
kill -STOP 1
echo ATTEMPTED
