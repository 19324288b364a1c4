#!/usr/bin/env python3
"""Writes the tokens that tiktoken and Hugging Face's tokenizers make of difficult texts with the vocabulary of merges.txt:

    python3 tests/data/expected/make_vocabulary.py      writes vocabulary.txt; needs tiktoken and tokenizers

A line of vocabulary.txt has the bytes of a text in hexadecimal digits, and behind a colon its tokens. The ids are those of GPT-2's order: the bytes
in the order of its alphabet, then the merges. tests/parity/vocabulary.py takes the same texts.

merges.txt has 700 merges. ByteLevelBPETokenizer of tokenizers learned them from the README files of an older tree, with min_frequency=2.
"""
import sys
from pathlib import Path

import tiktoken
from tokenizers import ByteLevelBPETokenizer

PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
END_OF_TEXT = "<|endoftext|>"

TEXTS = [
    "the",
    "Hello world",
    "The number of ranks changes the speed, never the mathematics.",
    "we'll they've I'm don't it's he'd you're WE'LL I'M DON'T ''s 'sS '' '",
    "it\u2019s don\u2019t",
    "'ree 'vex 'lll 's's",
    " leading", "trailing ", "  two  spaces  ", "a   b", "   ", " ", "\n", "\n\n\n a", "a \n b", "a\n  b\t\tc\r\n\r\nd", " \t\n\r\v\f x",
    "1234567890 12 3.14 1,000,000 \u0661\u0662\u0663 \u00bd \u2167 \u2460 x2 2x",
    "!!!??? ... -- ($%^) a+b=c <tag/> #include {x}[y] _under_score_ ~`@&*|\\",
    END_OF_TEXT, f"a{END_OF_TEXT}b <|endoftext|", "<|endoftext|>" * 3,
    "\u00c9t\u00e9 na\u00efve stra\u00dfe \u00e6\u00f8\u00e5 e\u0301a\u0308 a\u0300\u0301\u0302\u0303\u0304",
    "\u0434\u043e\u0431\u0440\u043e\u0435 \u0443\u0442\u0440\u043e \u03ba\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u3053\u3093\u306b\u3061\u306f \uc548\ub155\ud558\uc138\uc694\u3000\u5168\u89d2 \U00020000\U0002a6d6",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f \U0001f44d\U0001f3fd\U0001f600\U0001f600",
    "\u00a0x\u00a0\u00a0y \u2003z\u2028\u2029w\u0085v\u1680u\u180et\u200bs\u202fr\u205fq\u3000p\ufeffo",
    "".join(map(chr, range(32))) + "\x7f\x80\x9f" + "a\x00b \x00\x00 \x1c\x1d \x1e\x1f",
    "\u0300 \u0301x \u200d\u200c \ue000 \uffff \ufffd \U0010ffff \u0378",
    "a" * 99, "ab" * 50, "the" * 40, "=" * 101, " " * 100 + "x", "\n" * 30 + " " * 20, "\u00e9" * 50, "0" * 65,
    "Supercalifragilisticexpialidocious antidisestablishmentarianism",
]


def ids_of(merges):
    """Texts of Hugging Face's alphabet to ids in GPT-2's order, and bytes to ids."""
    printing = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printing]
    characters = [chr(byte) for byte in printing] + [chr(256 + n) for n in range(len(others))]
    byte_of = dict(zip(characters, printing + others))
    words = characters + [left + right for left, right in merges]
    return {word: i for i, word in enumerate(words)}, {bytes(byte_of[c] for c in word): i for i, word in enumerate(words)}


def references(merges):
    """Two encoders of text."""
    words, ranks = ids_of(merges)
    hugging_face = ByteLevelBPETokenizer(words, merges)
    openai = tiktoken.Encoding("ours", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={END_OF_TEXT: len(ranks)})
    return lambda text: hugging_face.encode(text).ids, lambda text: openai.encode(text, disallowed_special=())


def read_merges(path):
    lines = path.read_text(encoding="utf-8").split("\n")
    return [tuple(line.split(" ")) for line in lines[lines[0].startswith("#version"):] if line]


def main():
    here = Path(__file__).resolve().parent
    both = references(read_merges(here / "merges.txt"))
    with open(here / "vocabulary.txt", "w") as out:
        for text in TEXTS:
            one, other = (encode(text) for encode in both)
            if one != other:
                sys.exit(f"tokenizers and tiktoken disagree: {text!r}")
            print(text.encode().hex(), ":", *one, file=out)


if __name__ == "__main__":
    main()
