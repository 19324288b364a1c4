"""tests/system/readers/metrics_test.py DASHBOARD PROGRAM MPIRUN...: reads /metrics of a live run on two ranks with the
parser of prometheus_client, and /healthz.

The values must be those of metrics.jsonl, and each metric that the Grafana dashboard asks for must be there. While a
rank is stopped, /healthz must say so with the status 503. Clients that stall must delay neither answers nor steps. A
run whose port is taken must say so, and train. A reader that follows metrics.jsonl must see whole events at each
moment."""
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("failed:", what)


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def read_metrics(port):
    """{(name, labels without the host): value}"""
    status, headers, text = get(port, "/metrics")
    check(status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), f"{status} {headers}")
    found = {}
    for family in text_string_to_metric_families(text):
        check(family.documentation and family.type in ("counter", "gauge"), f"{family.name}: {family.type}")
        for sample in family.samples:
            labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "host"))
            check((sample.name, labels) not in found, f"{sample.name} {labels} twice")
            found[sample.name, labels] = sample.value
    return found


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if condition():
                return
        except (urllib.error.URLError, ConnectionError, FileNotFoundError):
            pass
        time.sleep(0.05)
    raise RuntimeError(f"not within {seconds} s: {what}")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def rank_processes(mpirun):
    """{rank: process id}"""
    ranks = {}
    for pid in Path(f"/proc/{mpirun}/task/{mpirun}/children").read_text().split():
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                ranks[int(entry.partition(b"=")[2])] = int(pid)
    return ranks


def queried(dashboard):
    expressions = [target["expr"] for panel in json.loads(dashboard.read_text())["panels"] for target in panel["targets"]]
    names = {name for expression in expressions for name in re.findall(r"ddp_train_\w+", expression)}
    check(len(expressions) > 5 and all(re.search("ddp_train_", e) for e in expressions), f"expressions: {expressions}")
    return names - {"ddp_train_tokens_per_second"}  # this run is on images


class Follower(threading.Thread):
    """Follows a file of events from its first line on, and parses what each read gives. Stop it with end()."""

    def __init__(self, path):
        super().__init__()
        self.path, self.ended, self.events, self.reads = path, threading.Event(), [], 0

    def run(self):
        wait_until(lambda: self.path.exists() or self.ended.is_set(), 300, self.path)
        with open(self.path, "rb", buffering=0) as file:
            last = False
            while not last:
                last = self.ended.wait(0.0005)
                text = file.read(1 << 20)
                if not text:
                    continue
                self.reads += 1
                try:
                    self.events += [json.loads(line) for line in text.decode().splitlines()]
                except ValueError as error:
                    check(False, f"read {self.reads} of {self.path.name}: {error}: ...{text[-200:]}")

    def end(self):
        self.ended.set()
        self.join()
        check(self.reads > 5, f"a follower got events of {self.path.name} {self.reads} times")
        lines = self.path.read_bytes().splitlines(keepends=True)
        check(self.events == [json.loads(line) for line in lines], f"a follower saw {len(self.events)} of {len(lines)} events")
        check_pages(lines, self.path.name)


def check_pages(lines, name):
    """A reader sees parts of a line only if the line lies in two pages of the file, and then only at some moments."""
    page, line_of_one_page, end, cut = 4096, 1024, 0, []
    for line in lines:
        begin, end = end, end + len(line)
        if len(line) <= line_of_one_page and begin // page != (end - 1) // page:
            cut.append(line)
    check(end > page and not cut, f"{len(cut)} of the {len(lines)} lines of {name}, {end} bytes, lie in two pages: {cut[:1]}")


def saves_in(output):
    events = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [e["step"] for e in events if e["event"] == "save"]


def check_values(values, output):
    events = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    done = int(values["ddp_train_step", ()])
    steps = [e for e in events if e["event"] == "step" and e["step"] <= done]
    check([e["step"] for e in steps] == list(range(1, done + 1)), f"metrics.jsonl has not the first {done} steps")
    last = steps[-1]
    total = {field: sum(e[field] for e in steps) for field in ("samples", "data_ms", "compute_ms", "exposed_comm_ms")}
    right = {("ddp_train_loss", ()): last["loss"], ("ddp_train_learning_rate", ()): last["lr"],
             ("ddp_train_epoch", ()): last["epoch"], ("ddp_train_steps_total", ()): done,
             ("ddp_train_samples_total", ()): total["samples"], ("ddp_train_skipped_steps_total", ()): 0,
             ("ddp_train_samples_per_second", ()):
                 1000 * last["samples"] / (last["data_ms"] + last["compute_ms"] + last["exposed_comm_ms"])}
    for part, field in (("data", "data_ms"), ("compute", "compute_ms"), ("exposed_communication", "exposed_comm_ms")):
        right["ddp_train_step_seconds_total", (("part", part),)] = total[field] / 1000
    for key, value in right.items():
        check(math.isclose(values.get(key, math.nan), value, rel_tol=1e-9, abs_tol=1e-12), f"{key}: {values.get(key)}, not {value}")
    # The newest one may have come after the step and the scrape.
    evaluations = [(e["accuracy"], e["loss"]) for e in events if e["event"] == "eval" and e["step"] <= done]
    found = values["ddp_train_test_accuracy", ()], values["ddp_train_test_loss", ()]
    check(found in evaluations[-2:], f"evaluation {found}, not in {evaluations[-2:]}")
    # Its line may come after the scrape.
    wait_until(lambda: values["ddp_train_checkpoint_step", ()] in saves_in(output), 10, "the line of the scraped checkpoint")
    noise = [e["noise_scale"] for e in events if e["event"] == "speed"]
    check(values["ddp_train_noise_scale_samples", ()] in noise, f"noise scale not in {noise}")
    for rank in "01":
        label = ("rank", rank)
        check(values.get(("ddp_train_rank_state", (label, ("state", "running")))) == 1, f"rank {rank} does not run")
        check(abs(values["ddp_train_rank_step", (label,)] - done) <= 50, f"step of rank {rank}, at step {done}")
        check(values["ddp_train_rank_heartbeat_age_seconds", (label,)] >= 0, f"heartbeat of rank {rank}")
        check(sum(name == "ddp_train_rank_phase" and label in labels for name, labels in values) == 1, f"phase of rank {rank}")
    check(values["ddp_train_healthy", ()] == 1, "not healthy")


def health(port):
    status, headers, text = get(port, "/healthz")
    check(headers["Content-Type"] == "application/json", f"{headers}")
    report = json.loads(text)
    check(report["healthy"] == (status == 200), f"{status}: {text}")
    return status, report["ranks"]


def check_stalled_clients(port):
    """300 clients send half a request or nothing. Both paths answer before the server has cut off the silent ones."""
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
    for client in clients[::2]:
        try:
            client.sendall(b"GET /metrics HTTP/1.1\r\n")
        except ConnectionError:
            pass  # a newer one has its place
    check(health(port)[0] == 200, "the status 200 beside stalled clients")
    steps = read_metrics(port)["ddp_train_step", ()]
    clients[-1].setblocking(False)
    try:
        check(clients[-1].recv(1) != b"", "the newest of 300 silent clients was cut off")
    except BlockingIOError:
        pass
    wait_until(lambda: read_metrics(port)["ddp_train_step", ()] > steps, 300, "a step beside stalled clients")
    for client in clients:
        client.close()


def check_live_run(output, dashboard, program, mpirun):
    port = free_port()
    command = [*mpirun, "-np", "2", program, "--output-dir", output, "--train-samples", "2000", "--epochs", "100000", "--print-freq",
               "1", "--step-timeout", "60", "--threads", "1", "--metrics-port", str(port)]
    with open(output.with_suffix(".log"), "w") as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    follower = Follower(output / "metrics.jsonl")
    follower.start()
    try:
        names = queried(dashboard)
        missing = set(names)

        def complete():
            if job.poll() is not None:
                raise RuntimeError(f"the run has ended: {output.with_suffix('.log').read_text()}")
            missing.difference_update(name for name, _ in read_metrics(port))
            return not missing
        wait_until(complete, 300, missing)
        values = read_metrics(port)
        time.sleep(0.5)  # the event of the step is in metrics.jsonl when the step's line is printed
        check_values(values, output)
        listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if line.split()[3] == "0A"]
        check([a for a in listening if a.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"], f"listens on {listening}")
        status, ranks = health(port)
        check(status == 200 and [rank["state"] for rank in ranks] == ["running"] * 2, f"{status} {ranks}")

        check_stalled_clients(port)
        ranks_of_job = rank_processes(job.pid)
        os.kill(ranks_of_job[1], signal.SIGSTOP)
        wait_until(lambda: health(port)[0] == 503, 300, "the status 503 for a stopped rank")
        _, ranks = health(port)
        check([rank["state"] for rank in ranks] == ["running", "stopped"], f"states while rank 1 is stopped: {ranks}")
        check([rank["rank"] for rank in ranks] == [0, 1] and all(rank["host"] and rank["phase"] for rank in ranks), f"{ranks}")
        check(ranks[1]["silent_seconds"] > 3 and ranks[1]["silent_seconds"] > ranks[0]["silent_seconds"], f"{ranks}")
        check(read_metrics(port)["ddp_train_healthy", ()] == 0, "healthy while rank 1 is stopped")
        os.kill(ranks_of_job[1], signal.SIGCONT)
        wait_until(lambda: health(port)[0] == 200, 300, "the status 200 when the rank goes on")

        # A client that sends nothing does not keep the run from ending.
        idle = socket.create_connection(("127.0.0.1", port))
        os.kill(ranks_of_job[0], signal.SIGUSR1)
        check(job.wait(timeout=300) == 75, f"exit code {job.returncode}: {output.with_suffix('.log').read_text()}")
        idle.close()
    finally:
        if job.poll() is None:
            job.kill()
        follower.end()


def check_taken_port(output, program):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = subprocess.run([program, "--output-dir", output, "--train-samples", "500", "--epochs", "1", "--metrics-port", str(port)],
                             capture_output=True, text=True, timeout=300, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    said = ran.stdout + ran.stderr
    check(ran.returncode == 0 and "test acc:" in said, f"exit code {ran.returncode}: {said}")
    warning = f"warning: no metrics: cannot listen on port {port} of 127.0.0.1: Address already in use;"
    check(said.count(warning) == 1 and said.count("warning:") == 1, said)


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    dashboard, program, *mpirun = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        check_live_run(Path(folder) / "run", Path(dashboard), program, mpirun)
        check_taken_port(Path(folder) / "taken", program)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
