#!/usr/bin/env python3
"""Writes the pictures of this folder, and what Pillow 12 makes of them. (Pillow 13 resizes the columns before the rows
where that is less work; its results differ by 1 at most.) Needs numpy, and cjpeg of libjpeg-turbo-progs.

expected.txt has a line for each decode: file, channels and treatment of alpha asked for, channels and alpha of the
header, width and height of the upright picture, orientation, tolerance. expected.bin has the pixels, in this order.
resize.txt has a line for each resize: channels, filter, width and height of the input, box, width and height of the
result, window (x y w h). resize.bin has the windows. The pixels of the inputs are those of `pattern`."""
import io
import random
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(7)


def scene(w, h):
    """Smooth colours, an edge, and some noise."""
    y, x = np.mgrid[0:h, 0:w].astype(float)
    rgb = [127 + 100 * np.sin(x / 7 + c) * np.cos(y / 9 - c) + 25 * ((x + 2 * y) % 40 > 20) for c in range(3)]
    noise = rng.normal(0, 6, (h, w, 3))
    return np.clip(np.stack(rgb, 2) + noise, 0, 255).astype(np.uint8)


# JPEG


def jpeg(name, picture, **options):
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", **({"quality": 80} | options))
    (HERE / name).write_bytes(buffer.getvalue())


def cjpeg(name, picture, *options, grey=False):
    ppm = io.BytesIO()
    Image.fromarray(picture).convert("L" if grey else "RGB").save(ppm, "PPM")
    (HERE / name).write_bytes(subprocess.run(["cjpeg", "-quality", "80", *options], input=ppm.getvalue(),
                                             capture_output=True, check=True).stdout)


def exif(orientation, order):
    pack = lambda form, *values: struct.pack(order + form, *values)
    directory = pack("HHHIHH", 1, 274, 3, 1, orientation, 0) + pack("I", 0)
    return (b"II*\0" if order == "<" else b"MM\0*") + pack("I", 8) + directory


# PNG


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def pack_row(row, depth):
    """One row of samples to bytes."""
    if depth == 16:
        return row.astype(">u2").tobytes()
    if depth == 8:
        return row.astype(np.uint8).tobytes()
    bits = "".join(format(v, f"0{depth}b") for v in row)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def png(name, samples, colour, depth, interlaced=False, extra=()):
    """`samples`: h x w, or h x w x channels."""
    h, w = samples.shape[:2]
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    data = b""
    for x, y, dx, dy in passes:
        part = samples[y::dy, x::dx]
        if part.size:
            data += b"".join(b"\0" + pack_row(row.reshape(-1), depth) for row in part)
    packed = zlib.compress(data, 9)
    half = len(packed) // 2
    header = struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, int(interlaced))
    (HERE / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(n, d) for n, d in extra) +
                              chunk(b"IDAT", packed[:half]) + chunk(b"IDAT", packed[half:]) + chunk(b"IEND", b""))


lines, pixels = [], []


def expect(name, channels=3, alpha="drop", header=(3, 0), orientation=1, tolerance=1, values=None):
    if values is None:
        image = ImageOps.exif_transpose(Image.open(HERE / name))
        if alpha != "drop":
            image = image.convert("RGBA")
            flat = Image.new("RGB", image.size, alpha)
            flat.paste(image, mask=image.getchannel("A"))
            image = flat
        values = np.asarray(image.convert("RGB" if channels == 3 else "L"))
    h, w = values.shape[:2]
    lines.append(f"{name} {channels} {alpha} {header[0]} {header[1]} {w} {h} {orientation} {tolerance}")
    pixels.append(values.astype(np.uint8).tobytes())


def make_jpegs():
    large, small = scene(150, 117), scene(23, 17)
    for sampling in ("1x1", "2x1", "2x2", "1x2", "4x1"):
        cjpeg(f"sampling-{sampling}.jpg", large, "-sample", sampling)
        cjpeg(f"small-{sampling}.jpg", small, "-sample", sampling)
        expect(f"small-{sampling}.jpg")
    cjpeg("sampling-grey.jpg", large, grey=True)
    cjpeg("sampling-progressive.jpg", large, "-progressive", "-sample", "2x2")
    cjpeg("sampling-restart.jpg", large, "-restart", "1", "-sample", "2x1")
    expect("small-2x2.jpg", channels=1)
    cjpeg("grey.jpg", small, grey=True)
    expect("grey.jpg", header=(1, 0))
    expect("grey.jpg", channels=1, header=(1, 0))
    cjpeg("progressive.jpg", small, "-progressive")
    expect("progressive.jpg")
    cjpeg("arithmetic.jpg", small, "-arithmetic")
    cjpeg("progressive-arithmetic.jpg", small, "-arithmetic", "-progressive")
    # Pillow's libjpeg may lack arithmetic coding: djpeg of the same pixels' other file is the same.
    cjpeg("huffman.jpg", small)
    for name in ("arithmetic.jpg", "progressive-arithmetic.jpg"):
        expect(name, values=np.asarray(Image.open(HERE / "huffman.jpg").convert("RGB")))
    (HERE / "huffman.jpg").unlink()
    (HERE / "scans.tmp").write_text("0;\n1;\n2;\n")
    cjpeg("separate-scans.jpg", small, "-scans", str(HERE / "scans.tmp"))
    (HERE / "scans.tmp").unlink()
    expect("separate-scans.jpg")
    cjpeg("rgb.jpg", small, "-rgb")
    expect("rgb.jpg")

    buffer = io.BytesIO()
    ink = Image.fromarray(np.concatenate([small, scene(23, 17)[:, :, :1] // 2], 2), "CMYK")
    ink.save(buffer, "JPEG", quality=85)
    adobe = buffer.getvalue()
    at = adobe.index(b"\xff\xee")
    (HERE / "cmyk-adobe.jpg").write_bytes(adobe)
    (HERE / "cmyk.jpg").write_bytes(adobe[:at] + adobe[at + 2 + int.from_bytes(adobe[at + 2:at + 4], "big"):])
    (HERE / "ycck.jpg").write_bytes(adobe[:at + 15] + b"\2" + adobe[at + 16:])
    for name in ("cmyk-adobe.jpg", "cmyk.jpg", "ycck.jpg"):
        expect(name, tolerance=2)

    for orientation in range(1, 9):
        block = b"Exif\0\0" + exif(orientation, "<>"[orientation % 2])
        jpeg(f"exif-{orientation}.jpg", small, exif=block)
        expect(f"exif-{orientation}.jpg", orientation=orientation)
    jpeg("one.jpg", scene(1, 1))
    expect("one.jpg")


def make_pngs():
    colour = scene(21, 14)
    grey = colour[:, :, 0]
    alpha = scene(21, 14)[:, :, 1]
    for depth in (1, 2, 4, 8):
        png(f"grey-{depth}.png", grey >> (8 - depth), 0, depth)
        expect(f"grey-{depth}.png", header=(1, 0), channels=1 if depth == 2 else 3)
    palette = colour.reshape(-1, 3)[:256]
    for depth in (1, 2, 4, 8):
        entries = min(2**depth, 200)
        plte = (b"PLTE", palette[:entries].tobytes())
        index = rng.integers(0, entries, (14, 21))
        png(f"palette-{depth}.png", index, 3, depth, extra=[plte])
        expect(f"palette-{depth}.png")
        if depth == 4:
            trns = (b"tRNS", bytes(range(0, 160, 17)))
            png("palette-trns.png", index, 3, depth, extra=[plte, trns])
            for treatment in ("drop", "white", "black"):
                expect("palette-trns.png", alpha=treatment, header=(3, 1))
    png("rgb.png", colour, 2, 8)
    expect("rgb.png")
    expect("rgb.png", channels=1)
    png("rgb.jpg.png", colour, 2, 8, extra=[(b"eXIf", exif(6, ">"))])
    (HERE / "rgb.jpg.png").rename(HERE / "png-exif-6.jpg")  # a PNG with another name
    expect("png-exif-6.jpg", orientation=6)
    png("interlaced.png", colour, 2, 8, interlaced=True)
    expect("interlaced.png")
    png("interlaced-1.png", grey >> 7, 0, 1, interlaced=True)
    expect("interlaced-1.png", header=(1, 0))
    png("interlaced-thin.png", colour[:1, :3], 2, 8, interlaced=True)
    expect("interlaced-thin.png")
    png("rgb-trns.png", colour, 2, 8, extra=[(b"tRNS", struct.pack(">HHH", *map(int, colour[3, 5])))])
    expect("rgb-trns.png", header=(3, 1))
    expect("rgb-trns.png", alpha="white", header=(3, 1))
    png("grey-trns.png", grey // 16 * 16, 0, 8, extra=[(b"tRNS", struct.pack(">H", 144))])
    expect("grey-trns.png", header=(1, 1))
    expect("grey-trns.png", alpha="black", header=(1, 1))
    png("grey-alpha.png", np.stack([grey, alpha], 2), 4, 8)
    for treatment in ("drop", "white"):
        expect("grey-alpha.png", alpha=treatment, header=(1, 1))
    expect("grey-alpha.png", channels=1, alpha="black", header=(1, 1))
    png("rgba.png", np.dstack([colour, alpha]), 6, 8)
    for treatment in ("drop", "white", "black"):
        expect("rgba.png", alpha=treatment, header=(3, 1))

    # 16 bits: Pillow clips or cuts these, so numpy says what they are.
    scaled = lambda wide: np.rint(wide / 257.0)
    wide = rng.integers(0, 65536, (14, 21, 4))
    png("grey-16.png", wide[:, :, 0], 0, 16)
    expect("grey-16.png", header=(1, 0), tolerance=0, values=np.repeat(scaled(wide[:, :, :1]), 3, 2))
    png("rgb-16.png", wide[:, :, :3], 2, 16)
    expect("rgb-16.png", values=scaled(wide[:, :, :3]))
    png("rgba-16.png", wide, 6, 16, interlaced=True)
    expect("rgba-16.png", header=(3, 1), tolerance=0, values=scaled(wide[:, :, :3]))
    png("grey-alpha-16.png", wide[:, :, :2], 4, 16)
    expect("grey-alpha-16.png", channels=1, header=(1, 1), tolerance=0, values=scaled(wide[:, :, 0]))
    png("tall.png", scene(1, 5000)[:, :, 0], 0, 8)
    expect("tall.png", channels=1, header=(1, 0))


# WebP: from pictures of this folder, so that a new one changes no other file


def webp(name, image, **options):
    image.save(HERE / name, "WEBP", **({"quality": 80} | options))
    return name


def webp_chunks(name):
    """[(name, content)] of a file."""
    data, at, chunks = (HERE / name).read_bytes(), 12, []
    while at < len(data):
        length = int.from_bytes(data[at + 4:at + 8], "little")
        chunks.append((data[at:at + 4], data[at + 8:at + 8 + length]))
        at += 8 + length + length % 2
    return chunks


def webp_file(name, chunks):
    body = b"".join(n + struct.pack("<I", len(d)) + d + b"\0" * (len(d) % 2) for n, d in chunks)
    (HERE / name).write_bytes(b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body)


def make_webps():
    small, large = Image.open(HERE / "small-1x1.jpg"), Image.open(HERE / "sampling-1x1.jpg")
    rgba = Image.open(HERE / "rgba.png")
    expect(webp("lossy.webp", small), tolerance=0)
    expect("lossy.webp", channels=1, tolerance=0)
    expect(webp("lossy-large.webp", large, quality=50), tolerance=0)
    expect(webp("lossless.webp", small, lossless=True), tolerance=0)
    for name in (webp("lossy-alpha.webp", rgba), webp("lossless-alpha.webp", rgba, lossless=True, exact=True)):
        expect(name, header=(3, 1), tolerance=0)
        for treatment in ("white", "black"):
            expect(name, alpha=treatment, header=(3, 1))
    expect(webp("webp-exif-6.png", small, exif=exif(6, ">")), orientation=6, tolerance=0)  # a WebP with another name

    # The first of two frames covers a part of the canvas, from (4, 2) on.
    def frame(x, y, name, image):
        w, h = image.size
        header = b"".join(struct.pack("<I", n)[:3] for n in (x // 2, y // 2, w - 1, h - 1, 100)) + b"\0"
        body = b"".join(n + struct.pack("<I", len(d)) + d + b"\0" * (len(d) % 2) for n, d in webp_chunks(name)
                        if n in (b"ALPH", b"VP8 ", b"VP8L"))
        return b"ANMF", header + body
    size = b"".join(struct.pack("<I", n - 1)[:3] for n in (30, 20))
    for name, flags, first, image in (("animated.webp", 2, "lossy.webp", small),
                                      ("animated-alpha.webp", 18, "lossy-alpha.webp", rgba)):
        webp_file(name, [(b"VP8X", struct.pack("<I", flags) + size), (b"ANIM", b"\xff\xff\xff\xff\0\0"),
                         frame(4, 2, first, image), frame(0, 0, "lossless.webp", small)])
        expect(name, header=(3, int(flags == 18)), tolerance=0)
        expect(name, header=(3, int(flags == 18)), alpha="white")


def pattern(w, h, channels):
    y, x, c = np.mgrid[0:h, 0:w, 0:channels].astype(np.uint64)
    n = (x * 73856093 + y * 19349663 + c * 83492791) % 4294967296
    n = (n ^ n >> np.uint64(13)) * 1274126177 % 4294967296
    smooth = (x * 5 + y * 3 + c * 60) % 256
    return np.where(x // 8 % 2 == 1, smooth, n >> np.uint64(24)).astype(np.uint8)


def make_resizes():
    draw = random.Random(5)
    filters = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "nearest": Image.NEAREST}
    cases, windows = [], []
    for i in range(200):
        channels = 1 if i % 4 == 0 else 3
        name = list(filters)[i % 3] if i % 9 else "bilinear"
        w, h = (draw.randint(1, 90 if i % 5 else 700) for _ in range(2))
        x0, y0 = draw.randint(0, w - 1), draw.randint(0, h - 1)
        x1, y1 = draw.randint(x0 + 1, w), draw.randint(y0 + 1, h)
        if i % 2:  # edges at eighths of a pixel, inside the same pixels
            x0, y0 = x0 + draw.randint(0, 3) / 8, y0 + draw.randint(0, 3) / 8
            x1, y1 = x1 - draw.randint(0, 3) / 8, y1 - draw.randint(0, 3) / 8
        out_w, out_h = draw.randint(1, 60), draw.randint(1, 60)
        x, y = draw.randint(0, out_w - 1), draw.randint(0, out_h - 1)
        width, height = min(draw.randint(1, 18), out_w - x), min(draw.randint(1, 12), out_h - y)
        image = pattern(w, h, channels)
        image = Image.fromarray(image if channels == 3 else image[:, :, 0])
        result = np.asarray(image.resize((out_w, out_h), filters[name], (x0, y0, x1, y1)))
        cases.append(f"{channels} {name} {w} {h} {x0} {y0} {x1} {y1} {out_w} {out_h} {x} {y} {width} {height}")
        windows.append(result[y:y + height, x:x + width].tobytes())
    (HERE / "resize.txt").write_text("\n".join(cases) + "\n")
    (HERE / "resize.bin").write_bytes(b"".join(windows))


make_jpegs()
make_pngs()
make_webps()
(HERE / "expected.txt").write_text("\n".join(lines) + "\n")
(HERE / "expected.bin").write_bytes(b"".join(pixels))
make_resizes()
