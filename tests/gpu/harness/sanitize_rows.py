"""Rows under NVIDIA's compute-sanitizer: our own kernels, and a few steps of the full program."""
import re
import shutil

from gtest_rows import last_test
from process import run
from table import Failed, Late, Row, Skipped

OWN_KERNELS = ("DeviceOnGpu.*:*/gpu_fp32*:*/gpu_bf16*-"
               "Conv2d*:Linear.*:Gradients.Convolution*:Gradients.FusedRelu*")
SHARED_MEMORY = ("BatchNormSums.SumsOfShardsAddUp/gpu_fp32:BatchNorm.AgreesWithTheReference/gpu_fp32_n9_14x14x64:"
                 "BatchNorm.AgreesWithTheReference/gpu_bf16_n5_7x3x17:Softmax.AgreesWithTheReference/gpu_fp32:"
                 "Linear.AgreesWithTheReference/gpu_fp32_n256_1x1x800to128_relu:"
                 "Clipping.SumOfSquaresIsTheSameAtAnyNumberOfThreads/gpu_fp32")
REFUSALS = ("Device not supported", "not supported on this", "Unable to find")
# Checks kernels of namespace ddp only. API errors do not count: libraries probe the driver with calls that may fail.
OURS = ["--kernel-name", "kns=_ZN3ddp", "--report-api-errors", "no"]
FOUND = {"memcheck": re.compile(r"ERROR SUMMARY: (\d+) error"),
         "racecheck": re.compile(r"RACECHECK SUMMARY: (\d+) hazard")}


def result_of(tool, code, output, least):
    """The summary line of a sanitizer's output, with at least `least` tests. Raises Failed or Skipped."""
    found = FOUND[tool].search(output)
    if code is None:
        raise Late("not done in time" + last_test(output), output)
    refusal = next((text for text in REFUSALS if text in output), None)
    if refusal and not (found and int(found.group(1)) == 0 and code == 0):
        raise Skipped(f"compute-sanitizer: {refusal}")
    if not found:
        raise Failed(f"exit code {code}, no summary", output)
    if int(found.group(1)) > 0 or code != 0:
        raise Failed(f"{found.group(0)}, exit code {code}", output)
    passed = re.search(r"^\[  PASSED  \] (\d+) test", output, re.MULTILINE)
    count = int(passed.group(1)) if passed else 0
    if count < least:
        raise Failed(f"{count} tests ran, not {least}", output)
    return found.group(0) + (f", {count} tests" if least else "")


def row(tool, name, make_command, limit, least=0):
    def work(machine, clock):
        sanitizer = shutil.which("compute-sanitizer", path=f"{machine.env['PATH']}:/usr/local/cuda/bin")
        if not sanitizer:
            raise Skipped("compute-sanitizer is not on this machine")
        command = make_command(machine, [sanitizer, "--tool", tool, "--error-exitcode", 99, *OURS])
        return result_of(tool, *run(command, machine.env, clock.left()), least)
    return Row("sanitize", f"{tool}: {name}", limit, work)


def tests(pattern):
    return lambda machine, sanitizer: [*sanitizer, *machine.prefix, machine.gpu_test, f"--gtest_filter={pattern}", "--gtest_color=no"]


def training(machine, sanitizer):
    options = ["--max-steps", 3, "--eval-every", 0, "--no-graph", "--deterministic", "--train-samples", 512]
    return machine.ranks(1, *sanitizer, *machine.training(machine.folder / "sanitize", *options))


def rows():
    steps = "ddp_train, 3 steps without graphs"
    return [row("memcheck", "our kernels in gpu_test", tests(OWN_KERNELS), 240, least=1),
            row("memcheck", steps, training, 90),
            row("racecheck", "our kernels that share memory", tests(SHARED_MEMORY), 240,
                least=len(SHARED_MEMORY.split(":"))),
            row("racecheck", steps, training, 90)]
