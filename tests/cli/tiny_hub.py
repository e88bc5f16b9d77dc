"""A fake hub of models on loopback, with injected faults."""
import hashlib
import http.server
import json
import threading
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def blob_digest(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """`models`: {"ORG/NAME": {path: bytes}}. Files that end in .gguf or .safetensors lie in another store, to which
    the hub leads on, as large ones do; that store has another host name."""

    def __init__(self, models):
        self.models = models
        self.seen = []  # (path, headers) of all requests
        self.token = None  # required in requests
        self.cuts = []  # bytes after which the next replies of the store are cut off
        self.failures = []  # status of the next replies of the store, 0: none
        self.ranges = True
        self.change = lambda path, data: data  # replaces the bytes that the store sends
        self.list = None  # replaces the description of a model
        self.sizes = True  # whether the description has sizes and digests
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                hub.answer(self)

            do_HEAD = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://localhost:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, request):
        path = urllib.parse.unquote(urllib.parse.urlparse(request.path).path)
        self.seen.append((path, dict(request.headers)))
        parts = path.strip("/").split("/")
        if parts[0] == "store":
            return self.send_stored(request, "/".join(parts[1:3]), "/".join(parts[3:]))
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return self.send(request, 401, b"{}")
        name = "/".join(parts[2:4]) if parts[:2] == ["api", "models"] else "/".join(parts[:2])
        if name not in self.models:
            return self.send(request, 404, b'{"error": "Repository not found"}')
        if parts[0] == "api":
            return self.send(request, 200, json.dumps(self.description(name)).encode())
        return self.send_file(request, name, "/".join(parts[4:]))

    def description(self, name):
        if self.list is not None:
            return self.list
        files = []
        for path, data in self.models[name].items():
            one = {"rfilename": path}
            if self.sizes:
                one |= {"size": len(data), "blobId": blob_digest(data)}
                if self.is_large(path):
                    one["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            files.append(one)
        return {"id": name, "sha": COMMIT, "siblings": files}

    @staticmethod
    def is_large(path):
        return path.endswith((".gguf", ".safetensors"))

    def send_file(self, request, name, path):
        data = self.models[name].get(path)
        if data is None:
            return self.send(request, 404, b"")
        if not self.is_large(path):
            return self.send(request, 200, data, {"ETag": f'"{blob_digest(data)}"', "X-Repo-Commit": COMMIT})
        store = self.url.replace("localhost", "127.0.0.1")
        headers = {
            "Location": f"{store}/store/{name}/{urllib.parse.quote(path)}", "X-Linked-Size": str(len(data)),
            "X-Linked-ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT,
        }  # fmt: skip
        return self.send(request, 302, b"", headers)

    def send_stored(self, request, name, path):
        if self.failures and (status := self.failures.pop(0)):
            return self.send(request, status, b"no")
        data = self.change(path, self.models[name][path])
        given = request.headers.get("Range")
        start = int(given.removeprefix("bytes=").rstrip("-")) if given and self.ranges else 0
        if start and start >= len(data):
            return self.send(request, 416, b"")
        self.send(request, 206 if start else 200, data[start:], {"ETag": '"of the store"'},
                  cut=self.cuts.pop(0) if self.cuts else None)  # fmt: skip

    @staticmethod
    def send(request, status, data, headers=None, cut=None):
        request.send_response(status)
        for key, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            request.send_header(key, value)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(data if cut is None else data[:cut])
        if cut is not None:
            request.wfile.flush()
            request.close_connection = True
            request.connection.shutdown(2)
