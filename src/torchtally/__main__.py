"""`python -m torchtally` is `torchtally`."""

from .commands import main

if __name__ == "__main__":
    main()
