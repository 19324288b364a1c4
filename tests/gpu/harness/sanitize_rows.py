"""Rows under NVIDIA's compute-sanitizer: our own kernels, and a few steps of the full program."""
import re
import shutil

from process import run
from table import Failed, Row, Skipped

OWN_KERNELS = ("DeviceOnGpu.*:*/gpu_fp32*:*/gpu_bf16*-"
               "Conv2d*:Linear.*:Gradients.Convolution*:Gradients.FusedRelu*")
REFUSALS = ("Device not supported", "not supported on this", "Unable to find")
# Checks kernels of namespace ddp only. API errors do not count: libraries probe the driver with calls that may fail.
OURS = ["--kernel-name", "kns=_ZN3ddp", "--report-api-errors", "no"]
FOUND = {"memcheck": re.compile(r"ERROR SUMMARY: (\d+) error"),
         "racecheck": re.compile(r"RACECHECK SUMMARY: (\d+) hazard")}


def result_of(tool, code, output):
    """The summary line of a sanitizer's output. Raises Failed or Skipped."""
    found = FOUND[tool].search(output)
    if code is None:
        raise Failed("not done in time", output)
    refusal = next((text for text in REFUSALS if text in output), None)
    if refusal and not (found and int(found.group(1)) == 0 and code == 0):
        raise Skipped(f"compute-sanitizer: {refusal}")
    if not found:
        raise Failed(f"exit code {code}, no summary", output)
    if int(found.group(1)) > 0 or code != 0:
        raise Failed(f"{found.group(0)}, exit code {code}", output)
    return found.group(0)


def row(tool, name, make_command, limit):
    def work(machine, clock):
        sanitizer = shutil.which("compute-sanitizer", path=f"{machine.env['PATH']}:/usr/local/cuda/bin")
        if not sanitizer:
            raise Skipped("compute-sanitizer is not on this machine")
        command = make_command(machine, [sanitizer, "--tool", tool, "--error-exitcode", 99, *OURS])
        return result_of(tool, *run(command, machine.env, clock.left()))
    return Row("sanitize", f"{tool}: {name}", limit, work)


def tests(machine, sanitizer):
    return [*sanitizer, machine.gpu_test, f"--gtest_filter={OWN_KERNELS}", "--gtest_color=no"]


def training(machine, sanitizer):
    options = ["--max-steps", 3, "--eval-every", 0, "--no-graph", "--deterministic", "--train-samples", 512]
    return machine.ranks(1, *sanitizer, *machine.training(machine.folder / "sanitize", *options))


def rows():
    return [row(tool, name, command, limit) for tool, limit in (("memcheck", 90), ("racecheck", 90))
            for name, command in (("our kernels in gpu_test", tests), ("ddp_train, 3 steps without graphs", training))]
