"""tests/system/readers/onnx_test.py PROGRAM: runs exported networks in onnxruntime.

Each network is trained for a few steps on Fashion-MNIST and exported: as it is, with its batch norms folded, and with
the normalization in the graph too. onnx's checker must accept each file. The logits, in batches of 1 and of 7, must be
those of `predict` within 1e-4 of the largest one, up to a constant, which softmax does not see; those of the folded
network must be those of the other one as they are. LeNet's best class must be the same for 1,000 pictures.

A small GPT is trained on the bytes of a text. What onnxruntime continues, with the most probable token each time and
sequences that grow, must be what `predict` continues."""
import gzip
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

PICTURES, BATCHES = 1000, (1, 7)
TOLERANCE = 1e-4
# For images larger than those of the test, or with layers that smaller networks have too.
LARGE = {"convnext_tiny", "densenet121", "efficientnet_b0", "vgg16", "vit_b_16"}
OF_TOKENS = {"gpt-tiny", "gpt2-124m"}
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("failed:", what)


def run(program, *arguments, code=0):
    ran = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=400,
                         env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    if ran.returncode != code:
        raise RuntimeError(f"{arguments}: exit code {ran.returncode}: {ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


def images():
    with gzip.open("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz") as file:
        return np.frombuffer(file.read(16 + PICTURES * 784), np.uint8)[16:].reshape(PICTURES, 28, 28, 1)


def write_png(path, grey):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width = grey.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def predicted(program, weights, files):
    """The probabilities of all classes of each picture."""
    lines = [json.loads(line) for line in run(program, "predict", weights, *files, "--json", "--top-k", 10,
                                              "--threads", 1).splitlines()]
    check([line["path"] for line in lines] == [str(file) for file in files], f"{weights}: the pictures in order")
    probabilities = [{int(p["class"]): p["probability"] for p in line["predictions"]} for line in lines]
    return np.array([[p[k] for k in range(10)] for p in probabilities])


def agree(logits, probabilities):
    """Compares the distances from the logit of the best class. A probability below 1e-30 has lost its digits."""
    logits, best = np.asarray(logits, np.float64), probabilities.argmax(axis=1)[:, None]
    with np.errstate(divide="ignore"):
        expected = np.log(probabilities / np.take_along_axis(probabilities, best, axis=1))
    actual = logits - np.take_along_axis(logits, best, axis=1)
    fits = np.abs(actual - expected) <= TOLERANCE * np.abs(logits).max()  # false for NaN
    return bool(np.all(np.where(probabilities > 1e-30, fits, actual < -60)))


def close(actual, expected):
    error = np.abs(np.asarray(actual, np.float64) - expected)
    return bool(np.all(error <= TOLERANCE * np.abs(expected).max()))  # false for NaN


def open_model(path, names):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    check(len(model.graph.initializer) > 0 and names >= {t.name for t in model.graph.initializer if "pixels." not in t.name},
          f"{path.name}: names of initializers")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def tensors(path):
    """{name: array} of a safetensors file."""
    content = path.read_bytes()
    length, = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    kinds = {"F32": np.float32, "I64": np.int64}
    return {name: np.frombuffer(content, kinds[entry["dtype"]], int(np.prod(entry["shape"])),
                                8 + length + entry["data_offsets"][0]).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


def batch_norms(graph):
    return [node for node in graph.node if node.op_type == "BatchNormalization"]


def kept_batch_norms(graph):
    """The number of those that do not follow a convolution or a linear layer, or are not its only reader."""
    makers = {node.output[0]: node.op_type for node in graph.node}
    readers = Counter(value for node in graph.node for value in node.input)
    return sum(makers.get(norm.input[0]) not in ("Conv", "Gemm") or readers[norm.input[0]] > 1
               for norm in batch_norms(graph))


def inferred(session, batch):
    return np.concatenate([session.run(["logits"], {"input": batch[i:i + size]})[0]
                           for size in BATCHES for i in range(0, size * 2, size)])


def check_network(program, name, folder, pixels, files):
    training = folder / name
    run(program, "--model", name, "--train-samples", 48, "--max-steps", 3, "--batch-size", 16, "--eval-every", 0, "--threads",
        1, "--lr", 0.05, "--mean", 0.3, "--std", 0.35, "--output-dir", training)
    trained = tensors(training / "model.safetensors")
    for tensor, values in trained.items():
        check("running_" not in tensor or np.any(np.abs(values - (tensor.endswith("var"))) > 0), f"{name}: {tensor} is new")
    order = [i for size in BATCHES for i in range(size * 2)]
    expected = predicted(program, training, [files[i] for i in order])
    scale, shift = np.float32(1 / (255 * 0.35)), np.float32(-0.3 / 0.35)
    normalized = (pixels * scale + shift).transpose(0, 3, 1, 2)

    def export(label, *options):
        path = folder / f"{name}-{label}.onnx"
        run(program, "export", training, "--output", path, *options)
        return path

    names = set(trained) | {re.sub("weight$", "bias", tensor) for tensor in trained}
    plain = inferred(open_model(export("plain"), names), normalized)
    check(plain.shape == expected.shape and agree(plain, expected), f"{name}: logits")
    folded = open_model(export("folded", "--fold-batch-norm", "--with-preprocessing"), names)
    check(close(inferred(folded, pixels), plain.astype(np.float64)), f"{name}: logits with folded batch norms from bytes")
    kept = len(batch_norms(onnx.load(folder / f"{name}-folded.onnx").graph))
    rightly = kept_batch_norms(onnx.load(folder / f"{name}-plain.onnx").graph)
    check(kept == rightly, f"{name}: {kept} batch norms are not folded, {rightly} cannot be")
    entry = json.loads(folded.get_modelmeta().custom_metadata_map["ddp_train"])
    check(entry["model"] == name and entry["mean"] == [0.3] and entry["std"] == [0.35] and entry["image"] == [28, 28, 1],
          f"{name}: metadata {entry}")
    if name == "lenet":
        everything = folded.run(["logits"], {"input": pixels})[0]
        best = predicted(program, training, files)
        equal = int(np.sum(everything.argmax(axis=1) == best.argmax(axis=1)))
        check(equal == PICTURES and len(set(best.argmax(axis=1))) > 1, f"lenet: {equal} of {PICTURES} best classes are equal")


GPT = """layers = [
  { embedding = 32, rows = "classes", init = { normal = 0.1 }, label = "table", name = "wte" },
  { position_embedding = 64, init = { normal = 0.1 }, label = "x", name = "wpe" },
  { layer_norm = true, name = "ln_1" },
  { linear = 96, transposed = true, name = "c_attn" },
  { scaled_dot_product_attention = 4, causal = true, name = "sdpa" },
  { linear = 32, name = "c_proj" },
  { add = "x", name = "add" },
  { activation = "gelu_tanh", name = "act" },
  { layer_norm = true, name = "ln_f" },
  { linear = "classes", tied = "table", name = "lm_head" },
]
"""


TEXT = """The number of ranks changes the speed, never the mathematics. A step reads a batch, sums the gradients of all ranks, and
moves the weights. Then the next step begins: who waits for whom? Nobody, for long. A rank that stops is named once, with
the last thing that it did; the others end too, and the run goes on from its newest checkpoint.
""" * 20


def check_text(program, folder):
    visible = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    alphabet = visible + [b for b in range(256) if b not in visible]  # GPT-2's
    tokens = np.argsort(alphabet).astype(np.uint16)[np.frombuffer(TEXT.encode(), np.uint8)]
    (folder / "tokens").mkdir()
    for part in ("train", "val"):
        tokens.tofile(folder / "tokens" / f"{part}.bin")
    (folder / "gpt.toml").write_text(GPT)
    run(program, "--model", folder / "gpt.toml", "--dataset", "tokens", "--data-path", folder / "tokens", "--vocabulary",
        "bytes", "--vocab-size", 257, "--sequence-length", 48, "--batch-size", 16, "--max-steps", 40, "--optimizer",
        "adamw", "--lr", 0.01, "--threads", 1, "--eval-every", 0, "--output-dir", folder / "gpt")
    run(program, "export", folder / "gpt", "--output", folder / "gpt.onnx")
    session = open_model(folder / "gpt.onnx", set(tensors(folder / "gpt" / "model.safetensors")))
    prompts = ["a", "The"]
    lines = [json.loads(line) for line in run(program, "predict", folder / "gpt", *prompts, "--json", "--temperature", 0,
                                              "--max-new-tokens", 24).splitlines()]
    for prompt, line in zip(prompts, lines):
        text = [alphabet.index(b) for b in prompt.encode()]
        start = len(text)
        while len(text) < start + len(line["tokens"]):
            logits = session.run(["logits"], {"input": np.array([text, text], np.int64)})[0]
            check(logits.shape == (2, len(text), 257) and close(logits[0], logits[1]), "gpt: logits of a batch")
            text.append(int(logits[0, -1].argmax()))
        check(len(line["tokens"]) == 24 and text[start:] == line["tokens"], f"gpt: {text[start:]} and {line}")


def main():
    program, = sys.argv[1:] if len(sys.argv) == 2 else sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "pictures").mkdir()
        pixels = images()
        files = [folder / "pictures" / f"{i:04}.png" for i in range(PICTURES)]
        for file, grey in zip(files, pixels):
            write_png(file, grey)
        refused = run(program, "--model", "none", "--output-dir", folder / "none", code=2)
        names = re.findall(r"[\w-]+", refused.partition("the models are: ")[2])
        check(len(names) >= 6, f"names of networks: {refused}")
        for name in names:
            if name in LARGE | OF_TOKENS:
                continue
            check_network(program, name, folder, pixels, files)
        check_text(program, folder)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
