"""Shared by tests of `veery serve`: a server and requests."""
import http.client
import json
import re
import socket
import subprocess
import threading
import time

from cli_base import PROGRAM


class Server:
    """A server on a free port."""

    def __init__(self, *arguments, prepare=None):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", *map(str, arguments), "--port", "0", "-t", "1"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=prepare)  # fmt: skip
        self.said = b""
        while not (found := re.search(rb"serving on https?://[^:]+:(\d+)", self.said)):
            line = self.process.stderr.readline()
            if not line:
                raise AssertionError(self.said.decode() + " (the server ended)")
            self.said += line
        self.port = int(found[1])
        self.reader = threading.Thread(target=self.drain, daemon=True)
        self.reader.start()

    def drain(self):
        """Reads the log, so that its pipe is never full."""
        for line in self.process.stderr:
            self.said += line

    def log(self, pattern, count=1, seconds=10):
        """Waits for `count` lines of the log that match `pattern` and returns them."""
        end = time.time() + seconds
        while True:
            found = [line for line in self.said.decode().splitlines() if re.search(pattern, line)]
            if len(found) >= count:
                return found
            if time.time() > end:
                raise AssertionError(f"not logged: {pattern}\n{self.said.decode()}")
            time.sleep(0.01)

    def connect(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def send(self, method, path, body=None, headers=None, connection=None):
        """Sends a request and returns status, headers and body."""
        own = connection or self.connect()
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        own.request(method, path, data, headers or {})
        reply = own.getresponse()
        text = reply.read()
        if connection is None:
            own.close()
        return reply.status, dict(reply.getheaders()), text

    def post(self, path, body, method="POST", **more):
        status, _, text = self.send(method, path, body, **more)
        assert status == 200, (status, text)
        return json.loads(text)

    def models(self):
        return self.post("/v1/models", None, method="GET")["data"]

    def raw(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def metric(self, name, **labels):
        """Returns the sum of a metric over the samples with these labels."""
        text = self.send("GET", "/metrics")[2].decode()
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(line.split()[-1]) for line in text.splitlines()
                   if re.match(f"veery_{name}[{{ ]", line) and all(one in line for one in wanted))  # fmt: skip

    def idle(self):
        """Waits until no request runs."""
        for _ in range(200):
            if self.metric("num_requests_running") == 0 and self.metric("num_requests_waiting") == 0:
                return
            time.sleep(0.05)
        raise AssertionError("requests still run")

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(timeout=30)
        self.reader.join(timeout=10)
        self.process.stderr.close()
        return status


def chat(text="Hello", **more):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 12, "ignore_eos": True, **more}


def form(fields, files=(), boundary="a-boundary"):
    """Returns body and headers of a form with fields and files."""
    body = b""
    for name, value in fields:
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
    for name, file_name, data in files:
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{file_name}"\r\n'.encode()
        body += b"Content-Type: application/octet-stream\r\n\r\n" + data + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def events(text):
    """Returns the data of server-sent events."""
    return [line[6:] for line in text.decode().splitlines() if line.startswith("data: ")]
