"""``python -m tpsrl`` is the same as ``tpsrl``."""

import sys

from tpsrl.start import main

if __name__ == "__main__":
    sys.exit(main())
