"""peer_clusters.py DARK.npy DATA.npy OUT.npz: the clusters that aare finds, in its order."""

import sys

import aare
import numpy as np

dark, data = np.load(sys.argv[1]), np.load(sys.argv[2])  # the peer takes writable arrays only
finder = aare.ClusterFinder(dark.shape[1:], (3, 3), 5.0, np.int32, 100000)
for frame in dark:
    finder.push_pedestal_frame(frame)
counts, clusters = [], []
for number, frame in enumerate(data):
    finder.find_clusters(frame, number)
    found = np.array(finder.steal_clusters(False))
    counts.append(len(found))
    clusters.append(found)
clusters = np.concatenate(clusters)
np.savez(sys.argv[3], counts=counts, row=clusters["y"], column=clusters["x"], data=clusters["data"])
