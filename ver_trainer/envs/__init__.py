"""Environment side of the trainer: NumPy and Gymnasium only, never torch."""

import sys

from gymnasium import logger

if not sys.stderr.isatty():
    # gymnasium colours every warning, those that go to a file as well
    logger.colorize = lambda text, *_, **__: text
