#!/usr/bin/python3
"""Pillow on the resampling of bench/resize_bench.cpp: best and median of 20, one thread."""

import statistics
import time

import numpy as np
import PIL
from PIL import Image

print(f"Pillow {PIL.__version__}")
for name, source, target in (("lanczos", 512, 2048), ("lanczos", 2048, 512), ("bicubic", 2048, 512)):
    image = Image.fromarray(np.random.default_rng(1).integers(0, 256, (source, source, 3), dtype=np.uint8))
    times = []
    for _ in range(20):
        start = time.perf_counter()
        image.resize((target, target), resample=Image.Resampling[name.upper()])
        times.append(1e3 * (time.perf_counter() - start))
    print(f"{name} {source} to {target}: best {min(times):.1f} ms, median {statistics.median(times):.1f} ms")
