"""`python -m weft.cli` is `weft`."""

from weft.cli.group import main

if __name__ == "__main__":
    main()
