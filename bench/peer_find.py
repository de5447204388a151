"""peer_find.py DARK.npy DATA.npy WINDOW FRAMES: microseconds of CPU time a frame that the peer's finder takes on
one thread, frames in memory, clusters taken out after each frame. Prints one JSON object."""

import json
import sys
import time

import aare
import numpy as np

dark, data = np.load(sys.argv[1]), np.load(sys.argv[2])
window, frames = int(sys.argv[3]), int(sys.argv[4])
finder = aare.ClusterFinder(image_size=dark.shape[1:], cluster_size=(window, window), n_sigma=5.0, dtype=np.int32, capacity=4096)
for frame in dark[:1000]:
    finder.push_pedestal_frame(frame)
if hasattr(finder, "update_threshold"):
    finder.update_threshold()
clusters = 0
begin_wall, begin_cpu = time.perf_counter(), time.process_time()
for number in range(frames):
    finder.find_clusters(data[number], number)
    clusters += finder.steal_clusters(True).size
wall, cpu = time.perf_counter() - begin_wall, time.process_time() - begin_cpu
print(json.dumps({"us_per_frame": wall / frames * 1e6, "cpu_us_per_frame": cpu / frames * 1e6, "clusters_per_frame": clusters / frames}))
