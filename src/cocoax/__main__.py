"""``python -m cocoax`` is the command line too."""

from cocoax.commands.main import main

if __name__ == "__main__":
    main()
