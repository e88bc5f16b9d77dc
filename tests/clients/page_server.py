"""A server for tests of the web page: the files are those of a real `veery serve`, the answers are the test's own."""
import http.client
import http.server
import json
import threading


class Reply:
    """A streamed chat completion in the making."""

    def __init__(self, handler, body):
        self.handler, self.body = handler, body
        self.begun = False

    def _write(self, data):
        if not self.begun:
            self.begun = True
            self.handler.send_response(200)
            self.handler.send_header("Content-Type", "text/event-stream")
            self.handler.send_header("Connection", "close")
            self.handler.end_headers()
            self.handler.close_connection = True
        self.handler.wfile.write(data)
        self.handler.wfile.flush()

    def event(self, json_value):
        self._write(b"data: " + json.dumps(json_value).encode() + b"\n\n")

    def text(self, text):
        self.event({"choices": [{"index": 0, "delta": {"content": text}}]})

    def delta(self, **delta):
        self.event({"choices": [{"index": 0, "delta": delta}]})

    def end(self, reason="stop", prompt=100, made=20):
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        self.event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": made}})
        self._write(b"data: [DONE]\n\n")

    def fail(self, status, message, code=None):
        self.handler.reply(status, "application/json", json.dumps({"error": {"message": message, "code": code}}).encode())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def reply(self, status, kind, data, headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/v1/models":
            if self.server.models_fail:
                return Reply(self, None).fail(*self.server.models_fail)
            data = [{"id": name, "meta": {"makes": "texts", "context": 2048}} for name in ("fake-1", "fake-2")]
            return self.reply(200, "application/json", json.dumps({"data": data}).encode())
        self.reply(*self.server.file(self.path))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        try:
            self.server.answer(Reply(self, body))
        except (BrokenPipeError, ConnectionResetError):
            self.server.left.set()  # the page has stopped the answer


class PageServer(http.server.ThreadingHTTPServer):
    """`file(path)` gives status, type, bytes and headers of a file of the page; `answer` is what a test sets."""

    daemon_threads = True

    def __init__(self, file):
        super().__init__(("127.0.0.1", 0), Handler)
        self.file = file
        self.reset()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def reset(self):
        self.asked, self.left, self.models_fail = [], threading.Event(), None
        self.answer = lambda reply: (reply.text("An answer."), reply.end())

    def end(self):
        self.shutdown()
        self.server_close()


def files_of(port):
    """The files that a server at `port` has, each asked for once."""
    known = {}

    def file(path):
        if path not in known:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
            reply = connection.getresponse()
            kept = ("Content-Encoding", "Content-Security-Policy", "X-Content-Type-Options")
            headers = [(name, reply.getheader(name)) for name in kept if reply.getheader(name)]
            known[path] = (reply.status, reply.getheader("Content-Type"), reply.read(), headers)
            connection.close()
        return known[path]

    return file
