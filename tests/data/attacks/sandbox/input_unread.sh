# Tries: close the input unread.
# Success: the writer outside stalls.
exec 0<&-
echo ATTEMPTED
