"""One end of a plain TCP stream in both directions, for bench/hosts: what a link costs the cores, whoever uses it.

tcp_stream.py listen|connect ADDRESS BYTES_A_SECOND FILE sends at this rate until FILE is gone.
"""
import socket
import sys
import threading
import time
from pathlib import Path

PORT, CHUNK = 29_612, bytes(256 << 10)


def connection(role, address):
    if role == "listen":
        return socket.create_server((address, PORT)).accept()[0]
    for _ in range(100):
        try:
            return socket.create_connection((address, PORT))
        except OSError:
            time.sleep(0.1)
    sys.exit(f"nobody listens at {address}")


def receive(stream):
    buffer = bytearray(1 << 20)
    while stream.recv_into(buffer):
        pass


def main():
    role, address, rate, file = sys.argv[1], sys.argv[2], float(sys.argv[3]), Path(sys.argv[4])
    stream = connection(role, address)
    receiver = threading.Thread(target=receive, args=[stream])
    receiver.start()
    start, sent = time.monotonic(), 0
    while file.exists():
        stream.sendall(CHUNK)
        sent += len(CHUNK)
        ahead = sent / rate - (time.monotonic() - start)
        if ahead > 0.004:
            time.sleep(ahead)
    stream.shutdown(socket.SHUT_WR)
    receiver.join()


if __name__ == "__main__":
    main()
