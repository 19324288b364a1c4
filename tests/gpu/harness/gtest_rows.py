"""Rows that run suites of gpu_test and gpu_ranks_test. A test prints `figure: NAME = NUMBER` for the table. If several
figures have the same name, the table shows the maximum."""
import math
import re

from process import run
from table import Again, Failed, Late, Row, Skipped

PRECISIONS = ("fp32", "tf32", "bf16")
# The suites that each precision of a GPU runs. rows_test compares them with the suites of the program.
GROUPS = {"convolutions": ("Conv2d", "Conv2dFrozen", "Conv2dNan", "DenseConv2d"),
          "linear layers": ("Linear", "LinearFrozen", "LinearNan"),
          "elementwise and softmax": ("Elementwise", "Spans", "Softmax", "TokenSoftmax", "Activations"),
          "channels and scales": ("Channels", "Scale", "Embedding"),
          "layer norm and attention": ("LayerNorms", "Attentions", "LargeScores"),
          "batch norm and pooling": ("BatchNorm*", "RunningStats", "Pool2d"),
          "dropout and augmentation": ("Dropout*", "Augmented", "Mix"),
          "optimizers, clipping, scans and hashes": ("Optimizer*", "Clipping", "GradientScan", "TensorHashes"),
          "kernels that are no op": ("CudaKernels",)}


def figures_of(output):
    greatest = {}
    for name, number in re.findall(r"^figure: (.+?) = (\S+)\s*$", output, re.MULTILINE):
        value = float(number)
        if name not in greatest or math.isnan(value) or value > greatest[name]:
            greatest[name] = value
    return [f"{name} {value:.2g}" for name, value in greatest.items()]


def failed_tests(output):
    return list(dict.fromkeys(re.findall(r"^\[  FAILED  \] ([^\s,]+)(?:, where.*)?$", output, re.MULTILINE)))


def result_of(code, output):
    """The figures in a gtest program's output. Raises Failed or Skipped."""
    counted = re.findall(r"^\[  (PASSED|SKIPPED)  ?\] (\d+) tests?", output, re.MULTILINE)
    count = {word: int(number) for word, number in counted}
    if code is None:
        raise Late("not done in time" + last_test(output), output)
    if code != 0:
        names = ", ".join(failed_tests(output))
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


def tests_of(listed):
    """The names in the output of --gtest_list_tests."""
    names, suite = [], ""
    for line in listed.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + name)
        elif name.endswith("."):
            suite = name
    return names


def first_cases(names):
    """Of each test and precision, the first parameter."""
    first = {}
    for name in names:
        precision = re.search(r"/gpu_(\w{4})", name)
        first.setdefault((name.split("/")[0], precision and precision[1]), name)
    return list(first.values())


def gtest(stage, name, limit, pattern, keep=None, few=False):
    """`keep`: the lines that begin with `<keep>: ` go to a file of this name. `few`: only the first case of each test
    and precision."""
    found = []

    def work(machine, clock):
        chosen = pattern
        if few:
            listed = machine.run([machine.gpu_test, "--gtest_list_tests", f"--gtest_filter={pattern}"], clock)
            chosen = ":".join(first_cases(tests_of(listed)))
        if not chosen:
            raise Failed("gpu_test has no such test")
        command = [*machine.prefix, machine.gpu_test, f"--gtest_filter={chosen}", "--gtest_color=no"]
        code, output = run(command, machine.env, clock.left())
        found[:] = failed_tests(output)[:1] or [last_test(output).removeprefix(" in ")]
        if keep:
            machine.keep(keep, name, "".join(line + "\n" for line in re.findall(f"^{keep}: (.*)$", output, re.MULTILINE)))
        return result_of(code, output)

    def again(machine, prefix, _):
        return [*prefix, *machine.prefix, machine.gpu_test, f"--gtest_filter={(found and found[0]) or pattern}", "--gtest_color=no"]
    return Row(stage, name, limit, work, Again(again, False, ""), pattern)


def ranks_gtest(name, limit, ranks, pattern):
    def work(machine, clock):
        command = machine.ranks(ranks, *machine.prefix, machine.ranks_test, f"--gtest_filter={pattern}", "--gtest_color=no")
        return result_of(*run(command, {**machine.env, "DDP_EXPECT_WORLD": str(ranks)}, clock.left()))
    return Row("ranks", f"{name}, {ranks} ranks", limit, work, pattern=pattern)


def suites(names, precision=None):
    return ":".join(f"{name}.*/gpu_{precision or ''}*" for name in names)


def ops_rows():
    return [gtest("ops", "device: memory, order, timestamps, graphs", 60, "DeviceOnGpu.*"),
            *(gtest("ops", f"{group}, a case of each test and precision", 60, suites(names), few=True)
              for group, names in GROUPS.items())]


def cases_rows():
    rows = [gtest("cases", f"{group}, {precision}", 120, suites(names, precision))
            for precision in PRECISIONS for group, names in GROUPS.items()]
    return [*rows, gtest("cases", "convolutions of several batch sizes", 60, "Conv2dPlan.*"),
            gtest("cases", "gradients against finite differences, fp32", 60, "Gradients.*"),
            gtest("cases", "20 repetitions, the same bits", 120, "DeterminismOnGpu.*"),
            gtest("cases", "layers of networks, one after another", 120, "LayersOnDevice.*")]


def graphs_rows():
    return [gtest("graphs", "graphs on and off, data resident and streamed: the same bits", 90,
                  "FreeRunningOnGpu.GraphsAndStreamed*")]


def lenet_rows():
    return [gtest("lenet", "one step's gradients against the CPU's, after 0, 50, 200 steps", 180, "LenetOnGpu.*"),
            gtest("lenet", "100 losses against the CPU's", 120, "FreeRunningOnGpu.HundredLosses*")]


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


def attention_rows():
    return [gtest("kernels", "attention of cuDNN beside our kernels, bf16: errors and times", 90, "AttentionOnGpu.*",
                  keep="attention")]
