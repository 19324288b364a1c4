"""Shared by the scripts that run ddp_train beside PyTorch."""
import json
import os
import subprocess
import sys
from pathlib import Path

LAUNCHER = Path(__file__).resolve().parents[2] / "launch" / "run"


def run(*command, **environment):
    """Prints the command and runs it without its output. Ends this script if it fails."""
    words = [str(word) for word in command]
    print("+", *words, flush=True)
    done = subprocess.run(words, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(f"this command failed with code {done.returncode}")


def train(program, ranks, folder, *options, save_every="never"):
    """Trains on the CPU, and returns the events of the run: objects of metrics.jsonl."""
    run(LAUNCHER, "-np", ranks, *options, "--device", "cpu", "--save-every", save_every, "--print-freq", 0, "--output-dir",
        folder, DDP_TRAIN=str(Path(program).resolve()))
    return [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
