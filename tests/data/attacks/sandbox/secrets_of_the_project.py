# Tries: import the project or the packages around it, which nothing named.
# Success: it may.
import importlib

for name in ("rollwright", "tests", "torch", "numpy", "pytest", "pydantic"):
    try:
        importlib.import_module(name)
        print("BREACH", name)
    except ImportError:
        pass
print("ATTEMPTED")
