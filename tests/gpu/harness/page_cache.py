"""The page cache: removes files from it, and says how much of them it still has. The kernel keeps pages that a running
program maps, and on some file systems all."""
import ctypes
import mmap
import os
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
FAILED = ctypes.c_void_p(-1).value


def cached_bytes(descriptor, size):
    """Bytes of an open file in the cache, in whole pages; all of them where the system does not say it."""
    address = LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == FAILED:
        return size
    pages = ctypes.create_string_buffer((size + mmap.PAGESIZE - 1) // mmap.PAGESIZE)
    known = LIBC.mincore(address, size, pages) == 0
    LIBC.munmap(address, size)
    return min(size, sum(page & 1 for page in pages.raw) * mmap.PAGESIZE) if known else size


def evict(files):
    """(bytes of the files, bytes of them that the cache keeps). Files that are given twice count once."""
    total = kept = 0
    for file in {Path(file).resolve() for file in files}:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            if size := os.fstat(descriptor).st_size:
                os.fsync(descriptor)  # pages that are not yet written stay
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                total, kept = total + size, kept + cached_bytes(descriptor, size)
        finally:
            os.close(descriptor)
    return total, kept
