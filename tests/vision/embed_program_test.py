"""embed and search from end to end. embed_program_test.py PROGRAM [NAME...] runs the classes or tests named, or all."""

import importlib.util
import json
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np
from PIL import Image

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
spec = importlib.util.spec_from_file_location("vision_oracle", ROOT / "tools" / "vision_oracle.py")
oracle = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oracle)


def write_model(folder, name="tiny", kind="plain", seed=1):
    """A model by numpy alone."""
    config = oracle.CONFIGS[name]
    folder.mkdir()
    header, data = {}, b""
    for tensor, shape in oracle.tensors(config).items():
        raw = (oracle.seeded(config, kind, seed, tensor).view(np.uint32) >> 16).astype("<u2").tobytes()
        header[tensor] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    vision = {"hidden_size": config["hidden"], "intermediate_size": config["intermediate"], "num_hidden_layers": config["layers"],
              "num_attention_heads": config["heads"], "num_channels": 3, "image_size": config["image"], "patch_size": config["patch"],
              "layer_norm_eps": config["eps"], "hidden_act": "gelu_pytorch_tanh"}
    (folder / "config.json").write_text(json.dumps({"model_type": "idefics3", "scale_factor": config["shuffle"],
                                                    "text_config": {"hidden_size": config["output"]}, "vision_config": vision}))
    return folder


def read(path):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    kinds = {"F32": "<f4", "I64": "<i8", "U8": "u1"}
    arrays = {}
    for name, info in header.items():
        if name != "__metadata__":
            a, b = info["data_offsets"]
            arrays[name] = np.frombuffer(raw[8 + n + a:8 + n + b], kinds[info["dtype"]]).reshape(info["shape"])
    return header["__metadata__"], arrays


class Embed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lightmill_embed_"))
        cls.model = write_model(cls.folder / "model")
        cls.pictures = cls.folder / "pictures"
        cls.pictures.mkdir()
        random = np.random.default_rng(1)
        for i in range(6):
            small = Image.fromarray(random.integers(0, 256, (4, 4, 3), dtype=np.uint8))
            small.resize((90 + 20 * i, 70)).save(cls.pictures / f"{i}.png")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_program(self, *arguments, code=0, text=None):
        result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, input=text)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def embed(self, *arguments, **options):
        return json.loads(self.run_program("embed", *arguments, "--model", self.model, "--json", **options).stdout)

    def test_a_folder_a_list_and_files_give_the_same_values(self):
        files = sorted(self.pictures.iterdir())
        outs = [self.folder / f"same{i}.safetensors" for i in range(3)]
        a = self.embed(self.pictures, "-o", outs[0], "--workers", 1)
        b = self.embed("-", "-o", outs[1], "--workers", 3, text="\n".join(map(str, files)) + "\n")
        c = self.embed(*files, "-o", outs[2], "--target", "reference")
        self.assertEqual(a["digest"], b["digest"])
        self.assertEqual(a["digest"], c["digest"])
        self.assertEqual(outs[0].read_bytes(), outs[1].read_bytes())
        metadata, arrays = read(outs[0])
        self.assertEqual(metadata["digest"], a["digest"])
        self.assertEqual(arrays["embeddings"].shape, (a["tiles"], 4, 48))
        self.assertEqual(arrays["names"].tobytes().decode().split("\0")[:-1], [str(f) for f in files])
        self.assertTrue(np.isfinite(arrays["embeddings"]).all())
        first, last = arrays["offsets"][2:4]
        mean = arrays["embeddings"][first:last].astype(np.float64).reshape(-1, 48).mean(axis=0)
        np.testing.assert_allclose(arrays["pooled"][2], mean, rtol=1e-6)

    def test_one_image_as_npy(self):
        out = self.folder / "one.npy"
        summary = self.embed(self.pictures / "0.png", "-o", out)
        self.assertEqual(list(np.load(out).shape), summary["shape"])
        result = self.run_program("embed", self.pictures, "--model", self.model, "-o", self.folder / "two.npy", code=2)
        self.assertIn("for 6 images", result.stderr)

    def test_a_bad_image_is_named_and_the_others_are_there(self):
        bad = self.folder / "bad.png"
        bad.write_bytes((self.pictures / "0.png").read_bytes()[:200])
        out = self.folder / "bad.safetensors"
        result = self.run_program("embed", self.pictures / "0.png", bad, self.folder / "none.png", self.pictures / "1.png",
                                  "--model", self.model, "-o", out, "--json", code=3)
        summary = json.loads(result.stdout)
        self.assertEqual((summary["images"], summary["failed"]), (4, 2))
        self.assertIn("bad.png", result.stderr)
        self.assertIn("none.png", result.stderr)
        self.assertEqual(list(read(out)[1]["failed"]), [0, 1, 1, 0])

    def test_search_finds_the_image_itself_and_refuses_other_models(self):
        out = self.folder / "index.safetensors"
        self.embed(self.pictures, "-o", out)
        matches = json.loads(self.run_program("search", out, self.pictures / "3.png", "--model", self.model, "--json").stdout)
        self.assertEqual(pathlib.Path(matches[0]["name"]).name, "3.png")
        self.assertAlmostEqual(matches[0]["cosine"], 1, places=6)
        other = write_model(self.folder / "other", seed=2)
        self.assertIn("model", self.run_program("search", out, self.pictures / "3.png", "--model", other, code=2).stderr)
        self.assertIn("alpha", self.run_program("search", out, self.pictures / "3.png", "--model", self.model, "--alpha", "white",
                                                code=2).stderr)

    def test_an_interrupted_run_is_gone_on_with(self):
        out = self.folder / "resumed.safetensors"
        files = [str(f) for f in sorted(self.pictures.iterdir())] * 20
        text = "\n".join(files)
        arguments = [PROGRAM, "embed", "-", "--model", str(self.model), "-o", str(out), "--target", "reference", "--workers", "1"]
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdin.write(text)
        process.stdin.close()
        journal = pathlib.Path(str(out) + ".partial.journal")
        for _ in range(2000):
            if journal.exists() and len(journal.read_text().splitlines()) > 3:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        self.assertIn("--resume", process.stderr.read())
        process.stdout.close()
        process.stderr.close()
        self.assertFalse(out.exists())
        summary = self.embed("-", "-o", out, "--resume", text=text)
        self.assertGreater(summary["resumed"], 0)
        whole = self.embed("-", "-o", self.folder / "whole.safetensors", text=text)
        self.assertEqual(summary["digest"], whole["digest"])
        self.assertEqual(out.read_bytes(), (self.folder / "whole.safetensors").read_bytes())

    def test_faults_are_named(self):
        out = self.folder / "fault.safetensors"
        for arguments, code, says in [((self.pictures, "--model", self.folder), 2, "config.json"),
                                      ((self.pictures, "--model", self.model, "--workers", "-1"), 2, "workers"),
                                      ((self.pictures, "--model", self.model, "--target", "sse2"), 2, "avx"),
                                      ((self.folder / "model", "--model", self.model), 2, "folder that holds")]:
            self.assertIn(says, self.run_program("embed", *arguments, "-o", out, code=code).stderr)
        self.assertIn(".npy", self.run_program("embed", self.pictures, "--model", self.model, "-o", "x.h5", code=2).stderr)
        out.write_text("mine")
        self.assertIn("--overwrite", self.run_program("embed", self.pictures, "--model", self.model, "-o", out, code=4).stderr)
        self.assertEqual(out.read_text(), "mine")
        out.unlink()
        cut = write_model(self.folder / "cut")
        weights = cut / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-10])
        self.assertIn("it was cut", self.run_program("embed", self.pictures, "--model", cut, "-o", out, code=3).stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
