# Tries: end everything that it may signal.
# Success: the sandbox serves no more calls.
kill -9 -1
echo ATTEMPTED
