"""CUDA's libraries on this machine: where they lie, which ones are missing, and a first read of their files. A cold disk
needs many seconds for them: cuBLASLt, cuDNN and NCCL have a gigabyte."""
import importlib.util
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
CUDA = r"lib(cudart|cudnn|nccl|cublas|cublasLt|nvrtc|cupti)[._]"
LATER = ("libcublasLt.so.1?", "libcudnn_*.so.9")  # loaded at their first use, from the folders below


def search_path():
    """The folders of Python's wheels, of other environments, and of the toolkit."""
    spec = importlib.util.find_spec("nvidia")
    wheels = list(spec.submodule_search_locations or []) if spec else []
    wheels += Path("/").glob("opt/*/.venv/lib/python3*/site-packages/nvidia")
    wheels += ROOT.glob("build/toolkit/lib/python3*/site-packages/nvidia")
    folders = [folder for place in wheels for folder in sorted(Path(place).glob("*/lib"))]
    folders += [Path("/usr/local/cuda") / part for part in ("lib64", "lib", "extras/CUPTI/lib64")]
    return list(dict.fromkeys(str(folder) for folder in folders if folder.is_dir()))


def needed(program, env):
    """(files of CUDA's libraries that the program loads, names of all libraries that are missing)."""
    try:
        listed = subprocess.run(["ldd", program], env=env, capture_output=True, text=True).stdout
    except OSError:
        return [], []  # no ldd: the program itself will say what is missing
    files = [Path(file) for file in re.findall(r"=> (/\S+)", listed) if re.match(CUDA, Path(file).name)]
    folders = dict.fromkeys([file.parent for file in files] + [Path(folder) for folder in search_path() if files])
    later = [file for pattern in LATER for file in next(filter(None, (sorted(f.glob(pattern)) for f in folders)), [])]
    missing = re.findall(r"(\S+) => not found", listed)
    return list({file.name: file for file in [*later, *files]}.values()), [name for name in missing if name != "libcuda.so.1"]


def read(file):
    count = 0
    with open(file, "rb", buffering=0) as stream:
        while block := stream.read(1 << 23):
            count += len(block)
    return count


def read_all(files):
    """(bytes, seconds)."""
    start = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(read, files)), time.monotonic() - start
