# Tries: take away or replace the folder in which programs start.
# Success: the sandbox serves no more calls, or a path outside is taken in its place.
rm -rf /work 2>/dev/null
mv /work /work2 2>/dev/null
ln -s / /work/trap
echo ATTEMPTED
