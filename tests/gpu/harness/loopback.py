"""The loopback interface `lo`: mpirun and its ranks need it, and a machine without a network may have it down."""
import fcntl
import socket
import struct

GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP


def request(any_socket, number, flags=0):
    answer = fcntl.ioctl(any_socket, number, struct.pack("16sH22x", b"lo", flags))
    return struct.unpack_from("16sH", answer)[1]


def bring_up():
    """Empty, or why `lo` is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            flags = request(any_socket, GET_FLAGS)
        except OSError:
            return ""  # nothing is known
        if flags & UP:
            return ""
        try:
            request(any_socket, SET_FLAGS, flags | UP)
        except OSError as error:
            return f"the network interface lo is down, and mpirun needs it ({error.strerror}): run `ip link set lo up` as root"
    return ""
