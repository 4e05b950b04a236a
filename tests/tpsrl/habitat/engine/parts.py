"""A backend small enough to fail in every way on purpose; it runs in the server's interpreter."""

from __future__ import annotations

import os
import time

import numpy as np


class Refusal(Exception):  # noqa: N818 - the server knows it by its name
    pass


class Backend:
    def __init__(self, options):  # type: ignore[no-untyped-def]
        self.options = options

    def about(self):  # type: ignore[no-untyped-def]
        return {k: v for k, v in self.options.items() if k == "greeting"}

    def op_double(self, x):  # type: ignore[no-untyped-def]
        return 2 * x

    def op_large(self):  # type: ignore[no-untyped-def]
        return np.zeros(4 * 2**20)

    def op_refuse(self, text):  # type: ignore[no-untyped-def]
        raise Refusal(text)

    def op_fail(self):  # type: ignore[no-untyped-def]
        return 1 / 0

    def op_die(self):  # type: ignore[no-untyped-def]
        print("farewell", flush=True)
        os._exit(7)

    def op_sleep(self, seconds):  # type: ignore[no-untyped-def]
        time.sleep(seconds)

    def op_close(self):  # type: ignore[no-untyped-def]
        pass


def make(options):  # type: ignore[no-untyped-def]
    if options.get("refuse"):
        raise Refusal(options["refuse"])
    if options.get("fail"):
        return 1 / 0
    time.sleep(options.get("delay", 0.0))
    return Backend(options)
