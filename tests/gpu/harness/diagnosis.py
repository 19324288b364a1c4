"""Runs the smallest failed row again in other ways, to show what its failure depends on."""
import shutil

from process import Clock, cause, run
from sanitize_rows import OURS

TRIAL, MEMCHECK, LAYERS = 20, 30, 60  # seconds
LOGS = {"NCCL_DEBUG": "INFO", "CUDNN_LOGLEVEL_DBG": "2", "CUDNN_LOGDEST_DBG": "stderr"}
BLOCKING = {"CUDA_LAUNCH_BLOCKING": "1"}


def trials(machine, row):
    """(name, seconds, command, variables) of each."""
    again = row.again
    if again.trains:
        yield "the doctor", TRIAL, again.command(machine, [], ["--doctor"]), {}
        yield "the logs of NCCL and cuDNN", TRIAL, again.command(machine, [], []), LOGS
        yield "--transport mpi", TRIAL, again.command(machine, [], ["--transport", "mpi"]), {}
        yield "--no-graph", TRIAL, again.command(machine, [], ["--no-graph"]), {}
    ungraphed = ["--no-graph"] if again.trains else []
    yield "CUDA_LAUNCH_BLOCKING=1", TRIAL, again.command(machine, [], ungraphed), BLOCKING
    sanitizer = shutil.which("compute-sanitizer", path=f"{machine.env['PATH']}:/usr/local/cuda/bin")
    if sanitizer:
        few = [*ungraphed, "--max-steps", 3] if again.trains else []
        yield "memcheck", MEMCHECK, again.command(machine, [sanitizer, "--tool", "memcheck", "--error-exitcode", 99, *OURS], few), {}
    if again.layers:
        yield "layer after layer", LAYERS, [*machine.prefix, machine.gpu_test,
                                            f"--gtest_filter=LayersOnDevice.*/{again.layers}"], \
            {"DDP_TENSORS": str(machine.beside("tensors"))}


def diagnose(machine, row, minutes, scale):
    """The findings, a line for each trial. Their outputs go to the log."""
    findings = [f"why `{row.name}` fails:"]
    shutil.rmtree(machine.beside("tensors"), ignore_errors=True)
    machine.beside("tensors").mkdir()
    for name, seconds, command, variables in trials(machine, row):
        clock = Clock(min(seconds * scale * machine.patience(), minutes.left()))
        if clock.left() == 0:
            findings.append(f"  {name}: the minutes were up")
            break
        code, output = run(command, {**machine.env, **variables}, clock.left())
        machine.keep_log(f"{row.name}: {name}", output)
        result = "passes" if code == 0 else f"not done in {clock.seconds:.0f} s" if code is None else cause(output)
        findings.append(f"  {name}: {result}")
        print(findings[-1], flush=True)
    tensors = sorted(file.name for file in machine.beside("tensors").iterdir())
    if tensors:
        findings.append(f"  kept: {', '.join(tensors)}")
    return findings


def smallest(rows):
    """The first failed row that can run again: the rows go from small programs to large ones."""
    return next((row for row in rows if row.result == "FAIL" and row.again), None)
