"""Compiles kernels on the machine with the GPU. The packed programs load their kernels from libgpu_kernels.so; a rebuilt
file is a library of its own, which is loaded first, so that its functions take the place of those."""
import shutil
from pathlib import Path

from machine import ROOT
from process import Clock, run

FLAGS = ["-shared", "--cudart=none", "-std=c++20", "-O3", "-DNDEBUG", "-DFMT_SHARED", "-DFMT_USE_CONSTEXPR=1", "--expt-relaxed-constexpr", "-arch=native",
         "-Xcompiler=-fPIC", "-I", ROOT / "src", "-I", ROOT]


def rebuild(machine, files):
    """False if a file does not compile; then machine.why says it."""
    libraries = []
    for file in files:
        nvcc = shutil.which("nvcc", path=f"{machine.env['PATH']}:/usr/local/cuda/bin")
        if not nvcc:
            machine.why = "no nvcc here, which --rebuild needs"
            return False
        library = machine.folder / f"{Path(file).stem}.so"
        clock = Clock(180)
        code, output = run([nvcc, *FLAGS, *include_folders(machine), "-o", library, file], machine.env, clock.left())
        if code != 0:
            machine.why = f"nvcc cannot compile {file}: {output.strip()[-3000:]}"
            return False
        print(f"rebuilt {file} in {clock.seconds - clock.left():.0f} s", flush=True)
        libraries.append(str(library))
    if libraries:
        machine.prefix = ["env", f"LD_PRELOAD={':'.join(libraries)}", "LD_BIND_NOW="]
    return True


def include_folders(machine):
    """fmt's headers, which the pack has, because the machine may lack them."""
    packed = machine.folder / "packed" / "include"
    return ["-I", packed] if packed.exists() else []
