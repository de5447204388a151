#!/usr/bin/env python3
"""The vision tower by other means: numpy makes the seeded weights, transformers computes with them.

  vision_oracle.py weights NAME KIND SEED TENSOR      SHA-256 of a seeded tensor as numpy makes it (little-endian float32)
  vision_oracle.py check PROGRAM OUT.json [NAME...]   PROGRAM (tests/vision/vision_stages of the build) and transformers in
                                                      float64 and float32, stage by stage: signal to noise in dB

The first needs numpy only; the second torch and transformers, whose versions are written down. NAME is one of the
configurations below (all of them by default); KIND is plain, peaky or outlier. Exit code 1: a stage is below 100 dB."""

import hashlib
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

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


def read_safetensors(path):
    raw = pathlib.Path(path).read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    kinds = {"F32": "<f4", "U8": "u1"}
    arrays = {}
    for name, info in header.items():
        if name != "__metadata__":
            a, b = info["data_offsets"]
            arrays[name] = np.frombuffer(raw[8 + n + a:8 + n + b], kinds[info["dtype"]]).reshape(info["shape"])
    return header.get("__metadata__", {}), arrays


def by_transformers(name, kind, seed, pixels, dtype):
    """Stage → array (rows, columns), computed by transformers in that type. pixels: (side, side, 3) uint8."""
    import torch

    c = CONFIGS[name]
    p = prefix(c)
    weights = {n: torch.from_numpy(seeded(c, kind, seed, n)).to(dtype) for n in tensors(c)}
    common = dict(hidden_size=c["hidden"], intermediate_size=c["intermediate"], num_hidden_layers=c["layers"], num_attention_heads=c["heads"],
                  num_channels=3, image_size=c["image"], patch_size=c["patch"], hidden_act="gelu_pytorch_tanh", layer_norm_eps=c["eps"])
    if c["head"] == "connector":
        from transformers.models.idefics3.configuration_idefics3 import Idefics3VisionConfig
        from transformers.models.idefics3.modeling_idefics3 import Idefics3VisionTransformer
        tower = Idefics3VisionTransformer(Idefics3VisionConfig(**common))
    else:
        from transformers import SiglipVisionConfig, SiglipVisionModel
        model = SiglipVisionModel(SiglipVisionConfig(**common))
        tower = getattr(model, "vision_model", model)
    tower.load_state_dict({n.removeprefix(p): t for n, t in weights.items() if n.startswith(p)})
    tower = tower.to(dtype).eval()
    table = ((np.arange(256) * (1.0 / 255.0)).astype(np.float32) - np.float32(0.5)) / np.float32(0.5)
    values = torch.from_numpy(np.ascontiguousarray(table[pixels].transpose(2, 0, 1)[None])).to(dtype)
    stages = {}

    def keep(stage):
        def hook(module, arguments, result):
            stages[stage] = (result[0] if isinstance(result, tuple) else result).detach()
        return hook

    tower.embeddings.register_forward_hook(keep("embeddings"))
    for i, layer in enumerate(tower.encoder.layers):
        layer.register_forward_hook(keep(f"layer_{i}"))
    tower.post_layernorm.register_forward_hook(keep("post_layernorm"))
    with torch.inference_mode():
        out = tower(pixel_values=values)
        if c["head"] == "connector":
            x, s = stages["post_layernorm"], c["shuffle"]
            side = c["image"] // c["patch"]
            x = x.reshape(side // s, s, side // s, s, c["hidden"]).permute(0, 2, 1, 3, 4).reshape((side // s) ** 2, s * s * c["hidden"])
            stages["head"] = torch.nn.functional.linear(x, weights["model.connector.modality_projection.proj.weight"])
        else:
            stages["head"] = out.pooler_output
    return {stage: t.reshape(-1, t.shape[-1]).numpy() for stage, t in stages.items()}


def decibels(x, truth):
    noise = ((x.astype(np.float64) - truth) ** 2).sum()
    return 10 * math.log10((truth.astype(np.float64) ** 2).sum() / noise) if noise > 0 else math.inf


def check(program, out, names):
    import torch
    import transformers

    report = {"torch": torch.__version__, "transformers": transformers.__version__, "numpy": np.__version__, "cases": []}
    passed = True
    for name in names or CONFIGS:
        for kind in ["plain", "peaky", "outlier"]:
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "stages.safetensors"
                subprocess.run([program, name, kind, "1", str(path)], check=True)
                metadata, ours = read_safetensors(path)
            truth = by_transformers(name, kind, 1, ours["pixels"], torch.float64)
            single = by_transformers(name, kind, 1, ours["pixels"], torch.float32)
            stages = {stage: {"ours_db": round(decibels(ours[stage], truth[stage]), 1),
                              "transformers_float32_db": round(decibels(single[stage], truth[stage]), 1)} for stage in truth}
            worst = min(s["ours_db"] for s in stages.values())
            passed &= worst >= 100
            print(f"{name} {kind}: worst stage {worst} dB ({metadata['target']}), transformers in float32 "
                  f"{min(s['transformers_float32_db'] for s in stages.values())} dB")
            report["cases"].append({"name": name, "kind": kind, "target": metadata["target"], "digest": metadata["digest"], "stages": stages})
    pathlib.Path(out).write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(0 if passed else 1)


def main():
    if len(sys.argv) == 6 and sys.argv[1] == "weights":
        name, kind, seed, tensor = sys.argv[2:]
        print(hashlib.sha256(seeded(CONFIGS[name], kind, int(seed), tensor).astype("<f4").tobytes()).hexdigest())
    elif len(sys.argv) >= 4 and sys.argv[1] == "check":
        check(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
