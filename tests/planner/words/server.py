"""A real server of chat completions on this machine, for tests of ``planner.llm``."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = "bring the apple from the fridge to the table"


class Server:
    """Gives its answers in turn, the last one again and again; keeps what it was asked.

    An answer is the content of a chat completion, bytes to send as they are, a status to fail
    with, or seconds to wait before answering with ``WORDS``.

    Attributes:
        url: to give as ``planner.llm``.
        asked: bodies of the requests.
        keys: their ``Authorization``.
    """

    def __init__(self, *answers):
        self.answers, self.asked, self.keys = list(answers), [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["Content-Length"])
                outer.asked.append(json.loads(self.rfile.read(length)))
                outer.keys.append(self.headers.get("Authorization"))
                outer.paths = self.path
                many = len(outer.answers) > 1
                outer._reply(self, outer.answers.pop(0) if many else outer.answers[0])

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # a client that did not wait
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def _reply(self, handler, answer):
        if isinstance(answer, float):
            time.sleep(answer)
            answer = json.dumps({"goal": WORDS})
        if isinstance(answer, int):
            handler.send_error(answer)
            return
        if isinstance(answer, str):
            answer = json.dumps({"choices": [{"message": {"content": answer}}]}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
