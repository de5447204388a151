"""PyTorch and transformers on the tiles ladder: the same pixels and weights; docs/ladder.md describes the protocol.

torch_tiles_peer.py eager     threads that call the tower with one tile each, one intra-op thread a caller
torch_tiles_peer.py compiled  torch.compile, all tiles in one batch, all cores inside it

The number of threads is what this process may use; LIGHTMILL_THREADS overrides it."""
import concurrent.futures
import os
import sys
import time

import torch
from tiles_model import CONFIGS, THREADS, Tower, read_input

mode = sys.argv[1]
replies = os.fdopen(3, "w", buffering=1)
tower = pixels = out = pool = None
for line in sys.stdin:
    verb, *words = line.split()
    with torch.inference_mode():
        if verb == "hello":
            work = dict(word.split("=", 1) for word in words[1:])
            config = CONFIGS[work["model"]]
            pixels, tensors = read_input(work["input"], int(work["tiles"]), config[4])
            tower = Tower(config, tensors).eval()
            print("ok", file=replies)
        elif verb == "reserve":
            if mode == "eager":
                torch.set_num_threads(1)
                pool = concurrent.futures.ThreadPoolExecutor(THREADS)
            else:
                torch.set_num_threads(THREADS)
                tower = torch.compile(tower)
                tower(pixels)
            print("ok", file=replies)
        elif verb == "run":
            out = None
            start = time.perf_counter()
            if mode == "eager":
                def one(i):
                    torch.set_num_threads(1)  # a setting of each thread
                    with torch.inference_mode():
                        return tower(pixels[i:i + 1])
                out = torch.cat(list(pool.map(one, range(len(pixels)))))
            else:
                out = tower(pixels)
            wall = time.perf_counter() - start
            print(f"ok wall={wall:.9f} items={len(pixels)} count={len(pixels)}", file=replies)
        elif verb == "output":
            values = out.numpy().astype("<f4").reshape(-1)
            with open(words[0], "wb") as file:
                file.write(f"array embeddings f32 {values.size}\n".encode())
                values.tofile(file)
            print("ok", file=replies)
        elif verb == "end":
            break
