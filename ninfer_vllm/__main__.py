"""`python -m ninfer_vllm`: the `ninfer` command."""

import sys

from ninfer_vllm.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
