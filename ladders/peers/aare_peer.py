"""The peer library aare (its wheel) as a program on the ladder; docs/ladder.md describes the protocol."""
import os
import sys
import time

import numpy as np
from aare import ClusterFinder

replies = os.fdopen(3, "w", buffering=1)
finder, data, found = None, None, []
for line in sys.stdin:
    verb, *words = line.split()
    if verb == "hello":
        work = dict(word.split("=", 1) for word in words[1:])
        shape = (int(work["rows"]), int(work["columns"]))
        dark = int(work["dark"])
        window = tuple(int(n) for n in work["window"].split("x"))
        # The wheel takes writable arrays only; copy-on-write leaves the shared input as it is.
        frames = np.memmap(work["input"], dtype="<u2", mode="c").reshape((-1, *shape))
        data = frames[dark:]
        finder = ClusterFinder(shape, window, n_sigma=5.0, capacity=10000)
        for frame in frames[:dark]:
            finder.push_pedestal_frame(frame)
        print("ok", file=replies)
    elif verb == "reserve":
        print("ok", file=replies)
    elif verb == "run":
        found = []
        start = time.perf_counter()
        for number, frame in enumerate(data):
            finder.find_clusters(frame, number)
            found.append(finder.steal_clusters())
        wall = time.perf_counter() - start
        count = sum(clusters.size for clusters in found)
        print(f"ok wall={wall:.9f} items={len(data)} count={count}", file=replies)
    elif verb == "output":
        lists = [np.array(clusters) for clusters in found]  # fields x (column), y (row), data, in raster order
        counts = np.array([len(c) for c in lists], dtype="<u8")
        rows = np.concatenate([c["y"] for c in lists]).astype("<u4")
        columns = np.concatenate([c["x"] for c in lists]).astype("<u4")
        residuals = np.concatenate([c["data"].reshape(-1) for c in lists]).astype("<i4")
        with open(words[0], "wb") as file:
            for name, array, kind in (("counts", counts, "u64"), ("rows", rows, "u32"), ("columns", columns, "u32"),
                                      ("residuals", residuals, "i32")):
                file.write(f"array {name} {kind} {array.size}\n".encode())
                array.tofile(file)
        print("ok", file=replies)
    elif verb == "end":
        break
