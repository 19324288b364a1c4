#!/usr/bin/env python3
"""Makes expected/gpt2.json: what transformers' GPT2LMHeadModel is, as make_torchvision.py describes it. The tensors are
the parameters: the head has the weight of transformer.wte. The rates of dropout are 0. Run it from any folder (half a
minute). Needs torch, torchvision and transformers."""
from pathlib import Path

from transformers import GPT2Config, GPT2LMHeadModel

from figures import write_json
from make_torchvision import deviations, fnv, options

FILE = Path(__file__).parent / "expected" / "gpt2.json"


def gpt2():
    return GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))


def main():
    model = gpt2()
    tensors = dict(model.named_parameters())
    lines = [f"{name} {'x'.join(map(str, tensor.shape))}" for name, tensor in tensors.items()]
    write_json(FILE, {"gpt2-124m": {
        "image": 1024, "classes": model.config.vocab_size, "tensors": len(tensors),
        "elements": sum(t.numel() for t in tensors.values()), "state_dict": fnv(lines), "options": fnv(options(model)),
        "init": deviations(gpt2)}})


if __name__ == "__main__":
    main()
