"""``python -m unrelu``: the command ``unrelu``, where that is not on the path."""

from unrelu.cli import main

if __name__ == "__main__":
    main()
