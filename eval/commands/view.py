"""``tpsrl view``: the robot in a browser, live or as recorded."""

from __future__ import annotations

import threading

from eval.view.desk import Desk, ViewConfig
from ver_trainer.options import load

HELP = """Serve a page with the apartment in 3D, the robot, its plan, its senses and its rewards.

  tpsrl view scenario=set_table agent=tpsrl       live: pause, seek, move objects, send goals
  tpsrl view skill=pick weights=FILE              one skill in its own environment
  tpsrl view results=DIR                          failed episodes of an evaluation

Ctrl-C ends it. From another machine: ssh -L 8080:127.0.0.1:8080 HOST (docs/view.md)."""

CONFIG = ViewConfig


def run(overrides: list[str]) -> int:
    """Serve until Ctrl-C."""
    desk = Desk(load(ViewConfig, overrides))
    try:
        desk.start_showing()
        print(f"open {desk.url} in a browser; Ctrl-C ends it", flush=True)
        threading.Event().wait()
    except KeyboardInterrupt:
        print("the page is closed")
    finally:
        desk.close()
    return 0
