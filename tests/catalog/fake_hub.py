"""A server on this machine that answers as the Hugging Face hub does, and remembers what it was asked."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub(ThreadingHTTPServer):
    """Serves the files of a folder as the repository `owner/name`; everything else does not exist."""

    daemon_threads = True

    def __init__(self, folder: Path, gated: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.folder, self.gated = folder, gated
        self.sent: dict[str, int] = {}  # bytes by file
        self.tokens: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeHub

    def do_GET(self) -> None:
        self.server.tokens.add(self.headers["Authorization"])
        if self.server.gated:
            self._refuse(403, "GatedRepo")
        elif self.path.startswith("/api/models/owner/name"):
            self._listing()
        elif found := re.fullmatch(rf"/owner/name/resolve/(?:main|{COMMIT})/([^/?]+)", self.path):
            self._file(found[1])
        else:
            self._refuse(404, "RepoNotFound")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _listing(self) -> None:
        if "/revision/" in self.path and f"/revision/{COMMIT}" not in self.path:
            return self._refuse(404, "RevisionNotFound")
        siblings = [{"rfilename": each.name, "size": each.stat().st_size} for each in self.server.folder.iterdir()]
        text = json.dumps({"id": "owner/name", "sha": COMMIT, "siblings": siblings}).encode()
        return self._send(200, text, {"Content-Type": "application/json"})

    def _file(self, name: str) -> None:
        path = self.server.folder / name
        if not path.is_file():
            return self._refuse(404, "EntryNotFound")
        size = path.stat().st_size
        tag = hashlib.sha256(f"{name} {size}".encode()).hexdigest()
        headers = {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"] or "")
        if wanted is None:
            return self._send(200, path.read_bytes() if size < 10**6 else b"", headers, size, name)
        first, last = int(wanted[1]), min(int(wanted[2]), size - 1)
        with path.open("rb") as file:
            file.seek(first)
            part = file.read(last - first + 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        return self._send(206, part, headers, name=name)

    def _send(self, status: int, body: bytes, headers: dict[str, str], size: int | None = None, name: str = "") -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
            self.server.sent[name] = self.server.sent.get(name, 0) + len(body)

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": "no"})

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def fake_hub(folder: Path, gated: bool = False) -> Iterator[FakeHub]:
    """The server while it runs."""
    hub = FakeHub(folder, gated)
    thread = Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
