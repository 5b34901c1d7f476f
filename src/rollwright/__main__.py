"""`python -m rollwright` is the command `rollwright`."""

from rollwright.cli import main

if __name__ == "__main__":
    main()
