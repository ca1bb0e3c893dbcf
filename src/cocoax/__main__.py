"""``python -m cocoax`` is the command line too."""

from cocoax.cli.main import main

if __name__ == "__main__":
    main()
