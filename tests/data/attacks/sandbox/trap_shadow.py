# Tries: leave modules in /work that programs would import in place of real ones.
# Success: the server itself imports one of them.
for name in ("os", "io", "json", "sys", "socket", "struct", "signal", "select", "traceback", "sitecustomize", "encodings"):
    with open(f"{name}.py", "w") as file:
        file.write("open('/work/imported', 'a').write(__name__)\n")
print("ATTEMPTED")
