# Tries: reach a server of this machine by the tools that are there.
# Success: the server is reached.
bash -c 'exec 3<>/dev/tcp/127.0.0.1/@TCP_PORT@ && cat <&3' 2>/dev/null && echo BREACH bash
bash -c 'echo x > /dev/udp/127.0.0.1/@UDP_PORT@' 2>/dev/null && echo BREACH udp
for tool in curl wget nc; do
  command -v $tool >/dev/null && timeout 1 $tool 127.0.0.1:@TCP_PORT@ 2>/dev/null && echo BREACH $tool
done
echo ATTEMPTED
