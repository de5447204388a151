"""The tower of the tiles ladder in PyTorch, and the ladder's input: what the peers beside this file share."""
import json
import os
import struct

import numpy as np
import torch
from transformers.models.idefics3.configuration_idefics3 import Idefics3VisionConfig
from transformers.models.idefics3.modeling_idefics3 import Idefics3VisionTransformer

CONFIGS = {"smolvlm-256m-instruct": (768, 3072, 12, 12, 512, 16, 4), "tiny": (64, 96, 2, 2, 32, 4, 4)}
PREFIX = "model.vision_model."
CONNECTOR = "model.connector.modality_projection.proj.weight"
THREADS = int(os.environ.get("LIGHTMILL_THREADS", len(os.sched_getaffinity(0))))


def read_input(path, tiles, side):
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    n = tiles * side * side * 3
    length = struct.unpack("<Q", raw[n:n + 8].tobytes())[0]
    header = json.loads(raw[n + 8:n + 8 + length].tobytes())
    data = raw[n + 8 + length:]
    tensors = {}
    for name, info in header.items():
        if name != "__metadata__":
            a, b = info["data_offsets"]
            bits = data[a:b].view("<u2").astype(np.uint32) << 16
            tensors[name] = torch.from_numpy(bits.view(np.float32).reshape(info["shape"]).copy())
    table = ((np.arange(256) * (1.0 / 255.0)).astype(np.float32) - np.float32(0.5)) / np.float32(0.5)
    pixels = table[raw[:n].reshape(tiles, side, side, 3)].transpose(0, 3, 1, 2)
    return torch.from_numpy(np.ascontiguousarray(pixels)), tensors


class Tower(torch.nn.Module):
    def __init__(self, config, tensors):
        super().__init__()
        hidden, inner, layers, heads, image, patch, self.shuffle = config
        vision = Idefics3VisionConfig(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
                                      num_channels=3, image_size=image, patch_size=patch, hidden_act="gelu_pytorch_tanh",
                                      layer_norm_eps=1e-6)
        self.tower = Idefics3VisionTransformer(vision)
        self.tower.load_state_dict({n.removeprefix(PREFIX): t for n, t in tensors.items() if n.startswith(PREFIX)})
        self.connector = torch.nn.Parameter(tensors[CONNECTOR])

    def forward(self, pixels):
        x = self.tower(pixel_values=pixels).last_hidden_state
        n, count, width = x.shape
        side, s = int(count**0.5), self.shuffle
        x = x.reshape(n, side // s, s, side // s, s, width).permute(0, 1, 3, 2, 4, 5).reshape(n, count // s**2, s * s * width)
        return torch.nn.functional.linear(x, self.connector)
