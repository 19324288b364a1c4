#!/usr/bin/env python3
"""tests/bench/data_peers.py PEER FOLDER WORKERS SECONDS: pictures/s of another pipeline; tests/bench/data starts it.

PEER: pil (DataLoader, ImageFolder, transforms v1), v2 (decode_image, v2 transforms of tensors) or dali. Prints pictures/s and
the means of the channels. The first epoch gives the means, the second only warms up.
"""
import json
import sys
import time

BATCH, MEAN, STD = 64, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def torch_epochs(peer, folder, workers):
    import torch
    from torchvision import datasets, io, transforms
    from torchvision.transforms import v2
    torch.set_num_threads(1)
    if peer == "pil":
        transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
                                        transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
        data = datasets.ImageFolder(f"{folder}/train", transform)
    else:
        transform = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
                                v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
        data = datasets.ImageFolder(f"{folder}/train", transform, loader=io.decode_image)
    loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    while True:
        yield (images.numpy() for images, _ in loader)


def dali_epochs(folder, workers):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=workers, device_id=None)
    def pipeline():
        files, _ = fn.readers.file(file_root=f"{folder}/train", random_shuffle=True, initial_fill=500)
        images = fn.decoders.image_random_crop(files, device="cpu", random_area=[0.08, 1], num_attempts=10,
                                               random_aspect_ratio=[3 / 4, 4 / 3])
        images = fn.resize(images, size=[224, 224], interp_type=types.INTERP_LINEAR, antialias=True)
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=[255 * m for m in MEAN],
                                        std=[255 * s for s in STD], dtype=types.FLOAT, output_layout="CHW")
    pipe = pipeline()
    pipe.build()
    while True:
        yield (pipe.run()[0].as_array() for _ in range(8))


def main():
    peer, folder, workers, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    epochs = dali_epochs(folder, workers) if peer == "dali" else torch_epochs(peer, folder, workers)
    sums, count = 0, 0
    for images in next(epochs):
        sums, count = sums + images.mean((2, 3), dtype="float64").sum(0), count + len(images)
    sum(len(images) for images in next(epochs))
    done, begin = 0, time.monotonic()
    while time.monotonic() - begin < seconds:
        done += sum(len(images) for images in next(epochs))
    print(json.dumps({"rate": done / (time.monotonic() - begin), "means": list(sums / count)}))


if __name__ == "__main__":
    main()
