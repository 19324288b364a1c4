"""tests/system/readers/tensorboard_test.py PROGRAM: reads the event files of killed and resumed runs with TensorBoard's
own readers: that of its Python library, and its data server, which TensorBoard uses where it can.

A run on one rank is killed after its last save, resumed, and resumed again after its end, which evaluates again. Both readers must show each step once, with the values of metrics.jsonl. A reader must open the files
of a run that was killed anywhere, so each is cut at many lengths and read."""
import json
import logging
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import tensorboard_data_server
from tensorboard.backend.event_processing import event_accumulator, event_file_loader, plugin_event_multiplexer
from tensorboard.data import server_ingester
from tensorboard.util import grpc_util

KILLED_AFTER, SAVED, PER_EPOCH, STEPS = 18, 10, 8, 24
TAGS = {"loss": "loss", "learning_rate": "lr", "step_ms/data": "data_ms", "step_ms/compute": "compute_ms",
        "step_ms/exposed_communication": "exposed_comm_ms"}  # tag of the run `train`: field of an event `step`
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("failed:", what)


def train(program, output, *options):
    command = [program, "--output-dir", output, "--train-samples", "2000", "--epochs", "3", "--save-every", f"{SAVED}steps",
               "--print-freq", "1", "--threads", "1", "--lr-scheduler", "linear", "--tensorboard", *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=400, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    return ran.returncode, ran.stdout + ran.stderr


def by_library(output):
    """{run: {tag: [(step, value)]}}"""
    multiplexer = plugin_event_multiplexer.EventMultiplexer(tensor_size_guidance={"scalars": 0})
    multiplexer.AddRunsFromDirectory(str(output))
    multiplexer.Reload()
    return {run: {tag: [(e.step, e.tensor_proto.float_val[0]) for e in multiplexer.Tensors(run, tag)]
                  for tag in multiplexer.GetAccumulator(run).Tags()["tensors"]} for run in multiplexer.Runs()}


def by_data_server(output):
    binary = server_ingester.ServerBinary(tensorboard_data_server.server_binary(), tensorboard_data_server.__version__)
    server = server_ingester.SubprocessServerDataIngester(
        binary, str(output), reload_interval=0, channel_creds_type=grpc_util.ChannelCredsType.LOCAL,
        samples_per_plugin={"scalars": 0})
    server.start()
    read = server.data_provider.read_scalars(None, experiment_id="", plugin_name="scalars", downsample=10**6)
    return {run: {tag: [(point.step, point.value) for point in points] for tag, points in tags.items()}
            for run, tags in read.items()}


def expected(output):
    """The same from metrics.jsonl."""
    events = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    steps = [e for e in events if e["event"] == "step"]
    evaluations = [e for e in events if e["event"] == "eval"]
    train = {tag: [(e["step"], e[field]) for e in steps] for tag, field in TAGS.items()}
    train["samples_per_second"] = [
        (e["step"], 1000 * e["samples"] / (e["data_ms"] + e["compute_ms"] + e["exposed_comm_ms"])) for e in steps]
    test = {tag: [(e["step"], e[tag]) for e in evaluations] for tag in ("loss", "accuracy")}
    return {"tensorboard/train": train, "tensorboard/test": test}


def equal(points, others):
    return [step for step, _ in points] == [step for step, _ in others] and \
        all(math.isclose(a, b, rel_tol=1e-6) for (_, a), (_, b) in zip(points, others))


def check_resumed(output):
    right = expected(output)
    all_steps = list(range(1, STEPS + 1))
    train, test = right.values()
    check([step for step, _ in train["loss"]] == all_steps, f"steps of metrics.jsonl: {train['loss']}")
    check([step for step, _ in test["accuracy"]] == list(range(PER_EPOCH, STEPS + 1, PER_EPOCH)), f"{test['accuracy']}")
    for reader in (by_library, by_data_server):
        read = reader(output)
        for run, tags in right.items():
            found = read.get(run, {})
            check(set(found) == set(tags), f"{reader.__name__}: tags of {run}: {sorted(found)}, not {sorted(tags)}")
            for tag, points in tags.items():
                check(equal(found.get(tag, []), points), f"{reader.__name__}: {run} {tag}: {found.get(tag)}, not {points}")


def check_cut(files, folder):
    """The readers read all complete records of a file that ends anywhere."""
    folder.mkdir()
    events = list(event_file_loader.EventFileLoader(str(files[0])).Load())
    content = files[0].read_bytes()
    ends = [0]  # of the records
    while ends[-1] < len(content):
        ends.append(ends[-1] + 16 + int.from_bytes(content[ends[-1]:ends[-1] + 8], "little"))
    check(len(ends) == len(events) + 1 and len(events) > SAVED, f"{files[0]}: {len(events)} events, {len(ends) - 1} records")
    cut = folder / files[0].name
    for length in [*range(ends[3]), *range(ends[3], len(content), 13)]:
        cut.write_bytes(content[:length])
        accumulator = event_accumulator.EventAccumulator(str(folder), size_guidance={event_accumulator.SCALARS: 0})
        accumulator.Reload()
        rates = accumulator.Scalars("learning_rate") if "learning_rate" in accumulator.Tags()["scalars"] else []
        complete = sum(end <= length for end in ends[1:])
        check(len(rates) == max(0, complete - 2), f"{length} of {len(content)} bytes: {len(rates)} steps of {complete} records")
    # The files of the resumed run come after a cut one.
    (folder / files[1].name).write_bytes(files[1].read_bytes())
    for reader in (by_library, by_data_server):
        for length in (ends[SAVED + 2] + 1, len(content) - 1):
            cut.write_bytes(content[:length])
            steps = [step for step, _ in reader(folder)["."]["learning_rate"]]
            check(steps == list(range(1, STEPS + 1)), f"{reader.__name__}: after {length} bytes: {steps}")


def main():
    program, = sys.argv[1:] if len(sys.argv) == 2 else sys.exit(__doc__)
    logging.disable()  # the readers warn of each cut record
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary) / "run"
        code, said = train(program, output, "--inject", f"rank=0,step={KILLED_AFTER + 1},kind=kill")
        check(code == -9, f"exit code {code}: {said}")
        first, = (output / "tensorboard" / "train").iterdir()
        killed = [event.step for event in event_file_loader.EventFileLoader(str(first)).Load()]
        check(killed[-1] > SAVED, f"the killed run has written only the steps {killed}")
        for _ in range(2):
            code, said = train(program, output, "--resume", "auto")
            check(code == 0, f"exit code {code}: {said}")
        files = sorted((output / "tensorboard" / "train").iterdir())
        check(len(files) == 3 and files[0] == first, f"event files: {files}")
        check_resumed(output)
        check_cut(files, Path(temporary) / "cut")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
