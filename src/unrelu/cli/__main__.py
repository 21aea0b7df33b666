"""``python -m unrelu.cli``, where the command ``unrelu`` is not on the path."""

from unrelu.cli import main

if __name__ == "__main__":
    main()
