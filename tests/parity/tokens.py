"""Files of tokens as llm.c writes them: a header of 256 int32, which are the magic, version 1, and the number of tokens,
then the tokens as uint16. Needs no package."""
import struct
from array import array

MAGIC, VERSION, HEADER = 20240520, 1, 256


def write_tokens(path, tokens):
    tokens = array("H", list(tokens))  # array() takes bytes as raw memory
    path.write_bytes(struct.pack(f"<{HEADER}i", MAGIC, VERSION, len(tokens), *[0] * (HEADER - 3)) + tokens.tobytes())


def read_tokens(path):
    tokens = array("H")
    tokens.frombytes(path.read_bytes()[4 * HEADER:])
    return tokens
