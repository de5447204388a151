"""ONNX Runtime on the tiles ladder: the tower exported from PyTorch, threads that call one session with one intra-op
thread each. The export goes through torch.onnx, whose time is before the clock. docs/ladder.md has the protocol."""
import concurrent.futures
import io
import os
import sys
import time

import numpy as np
import onnxruntime
import torch
from tiles_model import CONFIGS, THREADS, Tower, read_input

replies = os.fdopen(3, "w", buffering=1)
session = pixels = out = pool = None
for line in sys.stdin:
    verb, *words = line.split()
    if verb == "hello":
        work = dict(word.split("=", 1) for word in words[1:])
        config = CONFIGS[work["model"]]
        tensor, tensors = read_input(work["input"], int(work["tiles"]), config[4])
        tower = Tower(config, tensors).eval()
        pixels = tensor.numpy()
        buffer = io.BytesIO()
        with torch.inference_mode():
            torch.onnx.export(tower, (tensor[:1],), buffer, input_names=["pixels"], output_names=["out"], dynamo=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(buffer.getvalue(), options, providers=["CPUExecutionProvider"])
        print("ok", file=replies)
    elif verb == "reserve":
        pool = concurrent.futures.ThreadPoolExecutor(THREADS)
        print("ok", file=replies)
    elif verb == "run":
        out = None
        start = time.perf_counter()
        out = np.concatenate(list(pool.map(lambda i: session.run(None, {"pixels": pixels[i:i + 1]})[0], range(len(pixels)))))
        wall = time.perf_counter() - start
        print(f"ok wall={wall:.9f} items={len(pixels)} count={len(pixels)}", file=replies)
    elif verb == "output":
        values = out.astype("<f4").reshape(-1)
        with open(words[0], "wb") as file:
            file.write(f"array embeddings f32 {values.size}\n".encode())
            values.tofile(file)
        print("ok", file=replies)
    elif verb == "end":
        break
