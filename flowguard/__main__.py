"""The command line as ``python -m flowguard``."""

from flowguard.cli import main

if __name__ == "__main__":
    main(prog_name="flowguard")
