# Tries: sequences that act on the terminal of whoever shows the output.
# Success: the result is none.
print("\x1b[2J\x1b]0;title\x07\x1b[?1049h\x1b]52;c;aGFybQ==\x07\x9b31m\r\b\x7f" * 10)
print("\u202e\u2066\ufeff\u0000" + "\u0301" * 2000)
print("ATTEMPTED")
