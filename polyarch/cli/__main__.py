"""`python -m polyarch.cli`."""

from polyarch.cli import main

if __name__ == "__main__":
    main()
