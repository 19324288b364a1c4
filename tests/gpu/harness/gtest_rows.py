"""Rows that run suites of gpu_test and gpu_ranks_test. A test prints `figure: NAME = NUMBER` for the table. If several
figures have the same name, the table shows the maximum."""
import math
import re

from process import run
from table import Failed, Late, Row, Skipped


def figures_of(output):
    greatest = {}
    for name, number in re.findall(r"^figure: (.+?) = (\S+)\s*$", output, re.MULTILINE):
        value = float(number)
        if name not in greatest or math.isnan(value) or value > greatest[name]:
            greatest[name] = value
    return [f"{name} {value:.2g}" for name, value in greatest.items()]


def result_of(code, output):
    """The figures in a gtest program's output. Raises Failed or Skipped."""
    counted = re.findall(r"^\[  (PASSED|SKIPPED)  ?\] (\d+) tests?", output, re.MULTILINE)
    count = {word: int(number) for word, number in counted}
    failed = re.findall(r"^\[  FAILED  \] ([^\s,]+)(?:, where.*)?$", output, re.MULTILINE)
    if code is None:
        raise Late("not done in time" + last_test(output), output)
    if code != 0:
        names = ", ".join(dict.fromkeys(failed))
        raise Failed(f"failed: {names[:300]}" if names else f"exit code {code}" + last_test(output), output)
    if count.get("PASSED", 0) == 0:
        if count.get("SKIPPED", 0) > 0:
            raise Skipped(f"{count['SKIPPED']} tests skipped themselves")
        raise Failed("no test ran", output)
    skipped = [f"{count['SKIPPED']} skipped"] if count.get("SKIPPED", 0) else []
    return ", ".join([f"{count['PASSED']} tests", *skipped, *figures_of(output)])


def last_test(output):
    started = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    return f" in {started[-1]}" if started else ""


def gtest(stage, name, limit, pattern, keep=None):
    """`keep`: the lines that begin with `<keep>: ` go to a file of this name beside the results."""
    def work(machine, clock):
        command = [machine.gpu_test, f"--gtest_filter={pattern}", "--gtest_color=no"]
        code, output = run(command, machine.env, clock.left())
        if keep:
            machine.keep(keep, name, "".join(line + "\n" for line in re.findall(f"^{keep}: (.*)$", output, re.MULTILINE)))
        return result_of(code, output)
    return Row(stage, name, limit, work)


def ranks_gtest(name, limit, ranks, pattern):
    def work(machine, clock):
        command = machine.ranks(ranks, machine.ranks_test, f"--gtest_filter={pattern}", "--gtest_color=no")
        return result_of(*run(command, {**machine.env, "DDP_EXPECT_WORLD": str(ranks)}, clock.left()))
    return Row("ranks", f"{name}, {ranks} ranks", limit, work)


def ops_rows():
    rows = [gtest("ops", "device: memory, order, timestamps, graphs", 60, "DeviceOnGpu.*")]
    for precision in ("fp32", "tf32", "bf16"):
        def suites(*names):
            return ":".join(f"{name}.*/gpu_{precision}*" for name in names)
        rows += [gtest("ops", f"convolutions, {precision}", 120, suites("Conv2d")),
                 gtest("ops", f"linear layers, {precision}", 60, suites("Linear")),
                 gtest("ops", f"elementwise and softmax, {precision}", 60, suites("Elementwise", "Spans", "Softmax"))]
        if precision != "tf32":
            rows.append(gtest("ops", f"batch norm, pooling, dropout, optimizers, {precision}", 60,
                              suites("BatchNorm*", "RunningStats", "Pool2d", "Dropout*", "Optimizer*", "Clipping")))
    return [*rows, gtest("ops", "convolutions of several batch sizes", 60, "Conv2dPlan.*"),
            gtest("ops", "gradients against finite differences, fp32", 60, "Gradients.*"),
            gtest("ops", "20 repetitions, the same bits", 120, "DeterminismOnGpu.*")]


def lenet_rows():
    return [gtest("lenet", "one step's gradients against the CPU's, after 0, 50, 200 steps", 180, "LenetOnGpu.*"),
            gtest("lenet", "100 losses against the CPU's", 120, "FreeRunningOnGpu.HundredLosses*"),
            gtest("lenet", "graphs on and off, data resident and streamed: the same bits", 90,
                  "FreeRunningOnGpu.GraphsAndStreamed*")]


def networks_rows():
    return [gtest("networks", f"{model}: six steps against the CPU's, batch norms and dropout, fp32", 120,
                  f"NetworksOnGpu.*/{model.replace('-', '_')}") for model in ("keras-convnet", "resnet18")]


def ranks_rows(ranks):
    return [ranks_gtest("collectives are exact", 90, ranks, "CommOnGpu.*"),
            ranks_gtest("training matches one rank", 150, ranks, "RanksOnGpu.*"),
            ranks_gtest("synchronized batch norm and partitioned optimizer state", 60, ranks, "NormsOverRanksOnGpu.*")]


def fusions_rows():
    return [gtest("kernels", "convolutions of ResNet-18 beside those with fused operations, bf16", 240, "FusionsOnGpu.*",
                  keep="fusions")]
