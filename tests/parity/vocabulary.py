#!/usr/bin/env python3
"""Compares the tokens of `ddp_train tokenize` with those of tiktoken and of Hugging Face's tokenizers:

    $BENCH_PYTHON tests/parity/vocabulary.py DDP_TRAIN vocab.bpe [encoder.json]      needs tiktoken and tokenizers

The texts are those of tests/data/expected/make_vocabulary.py, random mixtures of them, and every character of Unicode between letters, digits,
signs and white space. vocab.bpe is GPT-2's file of merges; with encoder.json its ids are compared too.
"""
import json
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "data/expected"))
from make_vocabulary import TEXTS, ids_of, read_merges, references


def mixtures():
    random.seed(1)
    parts = [text[:20] for text in TEXTS] + [text[-7:] for text in TEXTS] + list(" \n\t'sd1a\u00e9\u4f60\u3000")
    return ["".join(random.choices(parts, k=random.randint(1, 30))) for _ in range(1000)]


def characters():
    """A text for each 64 characters."""
    known = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) != "Cs"]
    return ["".join(f"a{c}1{c} {c}{c}!{c}\n{c}" for c in known[i : i + 64]) for i in range(0, len(known), 64)]


def tokens_of(program, merges, texts, folder):
    """The tokens of each text. Each is a document, before which stands the last token of the vocabulary."""
    for number, text in enumerate(texts):
        (folder / f"{number:06}.txt").write_bytes(text.encode())
    subprocess.run([program, "tokenize", folder, "--vocabulary", merges, "--output-dir", folder / "out"], check=True)
    tokens = numpy.fromfile(folder / "out/train.bin", numpy.uint16, offset=1024)
    starts = numpy.flatnonzero(tokens == tokens[0])
    return [part[1:].tolist() for part in numpy.split(tokens, starts[1:])]


def main():
    program, merges = (Path(word).resolve() for word in (sys.argv[1:3] if len(sys.argv) in (3, 4) else sys.exit(__doc__)))
    pairs = read_merges(merges)
    if len(sys.argv) == 4:
        ids = json.loads(Path(sys.argv[3]).read_text())
        end = ids.pop("<|endoftext|>")
        assert ids == ids_of(pairs)[0] and end == len(ids), "the ids of encoder.json differ"
        print(f"ids: the {len(ids) + 1} of encoder.json")
    encoders = references(pairs)
    different = 0
    for name, texts in (("texts", TEXTS), ("mixtures", mixtures()), ("characters", characters())):
        with tempfile.TemporaryDirectory() as folder:
            ours = tokens_of(program, merges, texts, Path(folder))
        assert len(ours) == len(texts)
        for encoder, encode in zip(("tokenizers", "tiktoken"), encoders):
            wrong = [i for i, text in enumerate(texts) if encode(text) != ours[i]]
            print(f"{name}: {len(texts)} compared with {encoder}, {len(wrong)} differ", *(ascii(texts[i][:40]) for i in wrong[:20]))
            different += len(wrong)
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
