#!/usr/bin/env python3
"""The vision tower by other means: numpy makes the seeded weights, transformers computes with them.

  vision_oracle.py weights NAME KIND SEED TENSOR   SHA-256 of a seeded tensor, as numpy makes it (little endian float32)
  vision_oracle.py fixture NAME KIND SEED OUT.npz   every stage of one tile, float64 and float32, by transformers
  vision_oracle.py check LIGHTMILL OUT.json [NAME…]  dumps of `lightmill embed --stages` against transformers: dB by stage

The first needs numpy only. The others need torch and transformers; their versions go into what is written.
NAME is one of the configurations below; KIND is plain, peaky or outlier."""

import hashlib
import json
import math
import sys

import numpy as np

SMOLVLM = dict(hidden=768, intermediate=3072, layers=12, heads=12, image=512, patch=16, eps=1e-6, head="connector", shuffle=4, output=576)
TINY = dict(SMOLVLM, hidden=64, intermediate=96, layers=2, heads=2, image=32, patch=4, output=48)


def pooling(config):
    return dict(config, head="pooling", shuffle=1, output=config["hidden"])


CONFIGS = {
    "smolvlm-256m-instruct": SMOLVLM,
    "siglip-base-patch16-512": pooling(SMOLVLM),
    "siglip-base-patch16-224": pooling(dict(SMOLVLM, image=224)),
    "tiny": TINY,
    "tiny-pooling": pooling(TINY),
}


def prefix(config):
    return "model.vision_model." if config["head"] == "connector" else "vision_model."


def tensors(c):
    """Name → shape, as lightmill/vision/weights/config.cpp lists them."""
    p, h, m = prefix(c), c["hidden"], c["intermediate"]
    out = {}

    def linear(name, rows, columns):
        out[p + name + ".weight"] = (rows, columns)
        out[p + name + ".bias"] = (rows,)

    def norm(name):
        out[p + name + ".weight"] = (h,)
        out[p + name + ".bias"] = (h,)

    out[p + "embeddings.patch_embedding.weight"] = (h, 3, c["patch"], c["patch"])
    out[p + "embeddings.patch_embedding.bias"] = (h,)
    out[p + "embeddings.position_embedding.weight"] = ((c["image"] // c["patch"]) ** 2, h)
    for i in range(c["layers"]):
        layer = f"encoder.layers.{i}."
        norm(layer + "layer_norm1")
        for name in ["q_proj", "k_proj", "v_proj", "out_proj"]:
            linear(f"{layer}self_attn.{name}", h, h)
        norm(layer + "layer_norm2")
        linear(layer + "mlp.fc1", m, h)
        linear(layer + "mlp.fc2", h, m)
    norm("post_layernorm")
    if c["head"] == "connector":
        out["model.connector.modality_projection.proj.weight"] = (c["output"], c["shuffle"] ** 2 * h)
    else:
        out[p + "head.probe"] = (1, 1, h)
        out[p + "head.attention.in_proj_weight"] = (3 * h, h)
        out[p + "head.attention.in_proj_bias"] = (3 * h,)
        linear("head.attention.out_proj", h, h)
        norm("head.layernorm")
        linear("head.mlp.fc1", m, h)
        linear("head.mlp.fc2", h, m)
    return out


def seeded(config, kind, seed, name):
    """The values of a tensor: whole numbers up to the last multiplication, so that every bit is the same anywhere."""
    shape = tensors(config)[name]
    n = int(np.prod(shape))
    key = 0xCBF29CE484222325  # FNV-1a of the name
    for byte in name.encode():
        key = ((key ^ byte) * 0x100000001B3) & (2**64 - 1)
    key ^= seed
    with np.errstate(over="ignore"):  # splitmix64
        z = np.uint64(key) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    mask = np.uint64(0xFFFF)
    total = (z & mask) + ((z >> np.uint64(16)) & mask) + ((z >> np.uint64(32)) & mask) + (z >> np.uint64(48))
    deviation = 0.02
    if kind == "peaky" and ("q_proj.weight" in name or "k_proj.weight" in name):
        deviation = math.sqrt(5.0 / config["hidden"])
    v = (total.astype(np.int64) - 131070).astype(np.float32) * np.float32(deviation / 37837.2266)
    if "norm" in name and name.endswith(".weight"):
        v = np.float32(1) + v
    bits = v.view(np.uint32)
    v = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)).view(np.float32)
    v = v.reshape(shape)
    if kind == "outlier" and "head." not in name and ("out_proj.weight" in name or "fc2.weight" in name):
        spacing = config["hidden"] // 4
        v[np.arange(shape[0]) % spacing == spacing // 2] *= np.float32(32)
    return v


def main():
    if len(sys.argv) == 6 and sys.argv[1] == "weights":
        name, kind, seed, tensor = sys.argv[2:]
        print(hashlib.sha256(seeded(CONFIGS[name], kind, int(seed), tensor).astype("<f4").tobytes()).hexdigest())
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
