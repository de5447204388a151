"""lightmill models against a server of this test's own, on the loopback interface, that speaks as Hugging Face's
hub does.

models_test.py PROGRAM [TEST...] runs the tests named, or all."""

import fcntl
import hashlib
import http.server
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
TOKEN = "hf_a_secret_that_must_not_be_seen"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = bytes(range(256)) * 4096  # 1 MiB
CONFIG = json.dumps({"model_type": "siglip_vision_model", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
                     "num_attention_heads": 2, "image_size": 32, "patch_size": 4, "layer_norm_eps": 1e-6}).encode()


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Hub(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []  # (method, host asked, path, range, authorization)
        self.fault = ""
        self.times = 10 ** 9  # how often the fault happens
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that went away is what some tests are about

    def happens(self, fault):
        with self.lock:
            if self.fault != fault or self.times <= 0:
                return False
            self.times -= 1
            return True

    def sent(self, path):
        return [r for r in self.requests if r[0] == "GET" and path in r[2]]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = self.server
        hub.requests.append((self.command, self.headers["Host"], self.path, self.headers["Range"], self.headers["Authorization"]))
        port = hub.server_address[1]
        if hub.happens("busy"):
            return self.answer(503)
        if hub.happens("gated"):
            return self.answer(403, [], b"Access to model is restricted")
        if hub.happens("missing"):
            return self.answer(404)
        if hub.happens("circle"):
            return self.answer(307, [("Location", self.path)])
        if hub.happens("plain"):
            return self.answer(302, [("Location", "http://192.0.2.1/model.safetensors")])
        if self.path.startswith("/content/"):
            return self.content()
        match = re.fullmatch(r"/owner/model/resolve/(main|%s)/(.*)" % COMMIT, self.path)
        if hub.fault == "renamed" and not match and self.path.startswith("/owner/new/"):
            match = re.fullmatch(r"/owner/new/resolve/(main|%s)/(.*)" % COMMIT, self.path)
        elif hub.fault == "renamed" and match:
            return self.answer(307, [("Location", self.path.replace("/model/", "/new/"))])
        if not match:
            return self.answer(404)
        name = match[2]
        if name == "config.json":
            etag = "../../../evil" if hub.fault == "evil etag" else git_hash(CONFIG)
            return self.answer(200, [("ETag", f'"{etag}"'), ("X-Repo-Commit", COMMIT)], CONFIG)
        if name != "model.safetensors":
            return self.answer(404)
        size = {"longer": len(WEIGHTS) - 1000, "huge": 1 << 58}.get(hub.fault, len(WEIGHTS))
        # The content lies with another host, as at the hub.
        self.answer(302, [("X-Linked-Etag", f'"{sha256(WEIGHTS)}"'), ("X-Linked-Size", str(size)), ("X-Repo-Commit", COMMIT),
                          ("Location", f"http://localhost:{port}/content/weights?Signature=also_secret")])

    def content(self):
        hub = self.server
        data = WEIGHTS
        if hub.happens("wrong"):
            data = b"\1" + WEIGHTS[1:]
        start = 0
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        if wanted and hub.fault != "no ranges":
            start = int(wanted[1])
        rest = data[start:]
        headers = [("Content-Length", str(len(rest)))]
        if start:
            headers.append(("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}"))
        if hub.happens("cut") or (hub.fault == "no ranges" and hub.times > 0):
            hub.times -= hub.fault == "no ranges"
            self.answer(206 if start else 200, headers, rest[:len(rest) // 2])
            self.wfile.flush()
            self.close_connection = True
            return None
        if hub.fault == "slow":
            self.answer(206 if start else 200, headers)
            try:
                for at in range(0, len(rest), 16384):
                    self.wfile.write(rest[at:at + 16384])
                    time.sleep(0.02)
            except OSError:
                pass
            return None
        return self.answer(206 if start else 200, headers, rest)


class Models(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lightmill_models_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.hub = Hub()
        self.addCleanup(self.hub.server_close)
        self.addCleanup(self.hub.shutdown)
        self.write_manifest()

    def write_manifest(self, name="tiny", weights="", revision="main", config="config.json", file_name=None):
        (self.folder / "manifests").mkdir(exist_ok=True)
        (self.folder / "manifests" / f"{file_name or name}.toml").write_text(
            f'name = "{name}"\nrepository = "owner/model"\nrevision = "{revision}"\nlicence = "Apache-2.0"\n'
            f'licence_url = "https://example.org/licence"\n'
            f'[[files]]\nname = "{config}"\n[[files]]\nname = "model.safetensors"\n{weights}\n'
            f'[defaults]\nnum_channels = "3"\nhidden_act = "gelu_pytorch_tanh"\n')

    def environment(self, **more):
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "LSAN_OPTIONS", "ASAN_OPTIONS", "UBSAN_OPTIONS")}
        return {**keep, "HOME": str(self.folder), "HF_ENDPOINT": f"http://127.0.0.1:{self.hub.server_address[1]}",
                "HF_TOKEN": TOKEN, "LIGHTMILL_MANIFESTS": str(self.folder / "manifests"), **more}

    def run_models(self, *arguments, code=0, environment=None, **keywords):
        result = subprocess.run([PROGRAM, "models", *arguments], capture_output=True, text=True, timeout=100,
                                env=environment or self.environment(), **keywords)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for secret in (TOKEN, "also_secret"):
            self.assertNotIn(secret, result.stdout + result.stderr)
        return result

    def refused(self, code, *arguments, says, **keywords):
        result = self.run_models(*arguments, code=code, **keywords)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for part in says:
            self.assertIn(part, result.stderr)

    def cache(self):
        return self.folder / ".cache/huggingface/hub/models--owner--model"

    def whole(self):
        snapshot = self.cache() / "snapshots" / COMMIT
        return (snapshot / "model.safetensors").read_bytes() == WEIGHTS and (snapshot / "config.json").read_bytes() == CONFIG

    def test_fetch_fills_the_cache_as_hugging_face_lays_it_out(self):
        result = self.run_models("fetch", "tiny")
        self.assertIn("licence of the weights: Apache-2.0", result.stdout)
        self.assertTrue(self.whole())
        self.assertEqual((self.cache() / "refs/main").read_text(), COMMIT)
        link = self.cache() / "snapshots" / COMMIT / "model.safetensors"
        self.assertEqual(os.readlink(link), f"../../blobs/{sha256(WEIGHTS)}")
        self.assertEqual(sorted(p.name for p in (self.cache() / "blobs").iterdir()), sorted([sha256(WEIGHTS), git_hash(CONFIG)]))
        count = len(self.hub.requests)
        again = json.loads(self.run_models("fetch", "tiny", "--json").stdout)
        self.assertEqual([f["loaded_bytes"] for f in again["files"]], [0, 0])
        self.assertEqual(len(self.hub.requests), count)  # nothing was asked
        self.assertIn("here", self.run_models("list").stdout)
        self.assertEqual(self.run_models("verify", "tiny").stdout.count(": same, "), 2)

    def test_token_goes_to_the_endpoint_alone_and_into_no_file(self):
        self.run_models("fetch", "tiny")
        own = f"127.0.0.1:{self.hub.server_address[1]}"
        self.assertTrue(any(host == own for _, host, *_ in self.hub.requests))
        self.assertTrue(any(host != own for _, host, *_ in self.hub.requests))
        for method, host, path, _, authorization in self.hub.requests:
            self.assertEqual(authorization, f"Bearer {TOKEN}" if host == own else None, (method, path))
        for path in self.folder.rglob("*"):
            if path.is_file():
                self.assertNotIn(TOKEN.encode(), path.read_bytes(), path)

    def test_a_cut_transfer_goes_on_where_it_stopped(self):
        self.hub.fault, self.hub.times = "cut", 3
        self.run_models("fetch", "tiny")
        self.assertTrue(self.whole())
        ranges = [r[3] for r in self.hub.sent("/content/")]
        self.assertEqual(ranges, [None, f"bytes={2 ** 19}-", f"bytes={2 ** 19 + 2 ** 18}-", f"bytes={2 ** 19 + 2 ** 18 + 2 ** 17}-"])

    def test_a_server_without_ranges_begins_again(self):
        self.hub.fault, self.hub.times = "no ranges", 1
        self.run_models("fetch", "tiny")
        self.assertTrue(self.whole())

    def test_a_transfer_that_never_ends_is_told_and_the_next_fetch_goes_on(self):
        self.run_models("fetch", "tiny")
        blob = self.cache() / "blobs" / sha256(WEIGHTS)
        shutil.rmtree(self.cache() / "snapshots")
        blob.rename(blob.with_suffix(".incomplete"))
        os.truncate(blob.with_suffix(".incomplete"), 777_777)
        self.hub.requests.clear()
        result = json.loads(self.run_models("fetch", "tiny", "--json").stdout)
        self.assertEqual(self.hub.sent("/content/")[0][3], "bytes=777777-")
        self.assertEqual(result["files"][1]["loaded_bytes"], len(WEIGHTS) - 777_777)
        self.assertTrue(self.whole())

    def test_interrupted_fetch_keeps_what_came(self):
        self.hub.fault = "slow"
        process = subprocess.Popen([PROGRAM, "models", "fetch", "tiny"], env=self.environment(), stderr=subprocess.PIPE, text=True)
        part = self.cache() / "blobs" / (sha256(WEIGHTS) + ".incomplete")
        deadline = time.time() + 60
        while not (part.exists() and part.stat().st_size > 100_000) and time.time() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("the next fetch goes on", errors)
        kept = part.stat().st_size
        self.assertGreater(kept, 100_000)
        self.hub.fault = ""
        result = json.loads(self.run_models("fetch", "tiny", "--json").stdout)
        self.assertEqual(result["files"][1]["loaded_bytes"], len(WEIGHTS) - kept)

    def test_more_than_declared_is_dropped(self):
        self.hub.fault = "longer"
        self.refused(3, "fetch", "tiny", says=["more than the declared 1047576 bytes", "dropped"])
        self.assertEqual(sum(p.stat().st_size for p in (self.cache() / "blobs").glob("*.incomplete")), 0)

    def test_wrong_content_is_dropped_and_the_next_fetch_is_whole(self):
        self.hub.fault, self.hub.times = "wrong", 1
        self.refused(3, "fetch", "tiny", says=["has the hash", f"expected {sha256(WEIGHTS)}", "fetch again"])
        self.assertFalse((self.cache() / "snapshots" / COMMIT / "model.safetensors").exists())
        self.run_models("fetch", "tiny")
        self.assertTrue(self.whole())

    def test_the_manifest_has_the_last_word(self):
        self.write_manifest(weights=f'sha256 = "{"ab" * 32}"')
        self.refused(3, "fetch", "tiny", says=[f"found SHA-256 {sha256(WEIGHTS)}, expected {'ab' * 32} (manifest)"])
        self.write_manifest(weights="size = 5")
        self.refused(3, "fetch", "tiny", says=["found 1048576 bytes, expected 5 (manifest)"])
        self.write_manifest(revision="f" * 40)
        self.refused(8, "fetch", "tiny", says=["HTTP 404"])

    def test_strict_asks_for_the_manifests_own_hashes(self):
        self.refused(2, "fetch", "tiny", "--strict", says=["strict", "sha256"])

    def test_what_the_server_refuses_is_told(self):
        self.hub.fault = "missing"
        self.refused(8, "fetch", "tiny", says=["not there (HTTP 404)", "manifest of tiny"])
        self.hub.fault = "gated"
        self.refused(6, "fetch", "tiny", says=["access denied (HTTP 403)", "https://example.org/licence", "HF_TOKEN"])
        self.hub.fault = "circle"
        self.refused(8, "fetch", "tiny", says=["more than 5 redirects"])
        self.hub.fault = "plain"
        self.refused(8, "fetch", "tiny", says=["an address that is not https"])
        self.hub.fault = "evil etag"
        self.refused(8, "fetch", "tiny", says=["expected commit, hash and size"])
        self.hub.fault, self.hub.times = "busy", 2
        self.run_models("fetch", "tiny")

    def test_a_renamed_repository_is_followed(self):
        self.hub.fault = "renamed"
        self.run_models("fetch", "tiny")
        self.assertTrue(self.whole())

    def test_no_network(self):
        closed = self.environment(HF_ENDPOINT="http://127.0.0.1:9")
        self.refused(8, "fetch", "tiny", says=["127.0.0.1:9", "check the network"], environment=closed)
        self.refused(2, "fetch", "tiny", says=["endpoint", "https://"], environment=self.environment(HF_ENDPOINT="http://192.0.2.1"))

    def test_offline_says_what_is_missing_and_asks_nobody(self):
        offline = self.environment(HF_HUB_OFFLINE="1")
        self.refused(6, "fetch", "tiny", says=["config.json of tiny is not here", "snapshots", "lightmill models fetch tiny"], environment=offline)
        self.assertEqual(self.hub.requests, [])
        self.run_models("fetch", "tiny")
        self.hub.requests.clear()
        self.run_models("fetch", "tiny", environment=offline)
        self.assertEqual(self.hub.requests, [])

    def test_two_processes_load_once(self):
        self.hub.fault = "slow"
        processes = [subprocess.Popen([PROGRAM, "models", "fetch", "tiny", "--json"], env=self.environment(),
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        loaded = []
        for process in processes:
            out, errors = process.communicate(timeout=100)
            self.assertEqual(process.returncode, 0, errors)
            loaded.append(json.loads(out)["files"][1]["loaded_bytes"])
        self.assertEqual(sorted(loaded), [0, len(WEIGHTS)])
        self.assertEqual(len(self.hub.sent("/content/")), 1)
        self.assertTrue(self.whole())

    def test_hugging_faces_lock_is_waited_for(self):
        locks = self.folder / ".cache/huggingface/hub/.locks/models--owner--model"
        locks.mkdir(parents=True)
        with open(locks / f"{sha256(WEIGHTS)}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = subprocess.Popen([PROGRAM, "models", "fetch", "tiny", "--quiet"], env=self.environment())
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(1)
            self.assertEqual(self.hub.sent("/content/"), [])
        self.assertEqual(process.wait(60), 0)

    def test_full_disk(self):
        self.hub.fault = "huge"
        self.refused(4, "fetch", "tiny", says=["make room for 28823037615171", "No space left on device", "free some space"])
        self.hub.fault = ""

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        self.refused(4, "fetch", "tiny", says=[".incomplete", "write failed"], preexec_fn=limit)
        self.run_models("fetch", "tiny")
        self.assertTrue(self.whole())

    def test_a_changed_model_is_found(self):
        self.run_models("fetch", "tiny")
        blob = self.cache() / "blobs" / sha256(WEIGHTS)
        content = bytearray(WEIGHTS)
        content[1000] ^= 1
        blob.write_bytes(content)
        result = self.run_models("verify", "tiny", code=1)
        self.assertIn(f"differs, SHA-256 {sha256(bytes(content))}", result.stdout)
        self.run_models("fetch", "tiny")  # mends it
        self.assertTrue(self.whole())
        self.assertEqual(len(self.hub.sent("/content/")), 2)

    def test_a_broken_link_is_told_and_mended(self):
        self.run_models("fetch", "tiny")
        (self.cache() / "blobs" / sha256(WEIGHTS)).unlink()
        self.assertIn("a link to ../../blobs/", self.run_models("show", "tiny").stdout)
        self.assertIn("partly here", self.run_models("list").stdout)
        self.run_models("verify", "tiny", code=6)
        self.run_models("fetch", "tiny")
        self.assertTrue(self.whole())

    def test_import_takes_a_folder(self):
        source = self.folder / "tiny"
        source.mkdir()
        (source / "config.json").write_bytes(CONFIG)
        self.refused(4, "import", str(source), says=["model.safetensors", "No such file"])
        (source / "model.safetensors").write_bytes(WEIGHTS)
        offline = self.environment(HF_HUB_OFFLINE="1")
        self.run_models("import", str(source), environment=offline)
        self.run_models("fetch", "tiny", environment=offline)
        self.assertEqual(self.hub.requests, [])
        self.run_models("verify", "tiny")
        self.refused(2, "import", str(self.folder), says=["model", "expected one of tiny"])
        self.write_manifest(weights=f'sha256 = "{"ab" * 32}"')
        self.refused(3, "import", str(source), says=[sha256(WEIGHTS), "ab" * 32])

    def test_names_that_lead_elsewhere_are_refused(self):
        self.write_manifest(config="../../etc/passwd.json")
        self.refused(3, "list", says=['"../../etc/passwd.json"', "expected a path of letters"])
        self.write_manifest(config="model.bin")
        self.refused(3, "list", says=['"model.bin"', ".safetensors or .json"])
        self.write_manifest(revision="../main")
        self.refused(3, "list", says=['revision "../main"'])
        self.write_manifest()
        self.write_manifest(name="other", file_name="elsewhere")
        self.refused(3, "list", says=["elsewhere.toml", "found the name other, expected elsewhere"])

    def test_show_says_where_each_value_comes_from(self):
        self.assertEqual(json.loads(self.run_models("show", "tiny", "--json").stdout)["config"], [])
        self.run_models("fetch", "tiny")
        config = {c["key"]: c for c in json.loads(self.run_models("show", "tiny", "--json").stdout)["config"]}
        self.assertEqual((config["num_channels"]["value"], config["num_channels"]["source"]), ("3", "manifest"))
        self.assertEqual((config["hidden_size"]["value"], config["hidden_size"]["source"]), ("64", "config.json"))
        self.assertIn("num_channels = 3 (manifest)", self.run_models("show", "tiny").stdout)

    def test_make_seeded_writes_a_checkpoint(self):
        digests = []
        for kind in ("plain", "plain", "peaky"):
            folder = self.folder / f"{kind}{len(digests)}"
            self.run_models("make-seeded", "tiny", "--kind", kind, "-o", str(folder))
            self.assertEqual(json.loads((folder / "config.json").read_text())["model_type"], "idefics3")
            digests.append(sha256((folder / "model.safetensors").read_bytes()))
        self.assertEqual(digests[0], digests[1])
        self.assertNotEqual(digests[0], digests[2])
        self.refused(4, "make-seeded", "tiny", "-o", str(folder), says=["config.json", "--overwrite"])
        self.run_models("make-seeded", "tiny", "--seed", "1", "--overwrite", "-o", str(folder))
        self.refused(2, "make-seeded", "huge", says=["model", "smolvlm-256m-instruct"])
        self.refused(2, "make-seeded", "tiny", "--kind", "odd", says=["kind", "plain, peaky, outlier"])

    def test_unknown_model_is_refused_with_the_names(self):
        self.refused(2, "fetch", "tinny", says=["found tinny, expected one of tiny"])

    def test_the_programs_own_manifests(self):
        own = self.environment()
        del own["LIGHTMILL_MANIFESTS"]
        models = json.loads(self.run_models("list", "--json", environment=own).stdout)["models"]
        self.assertEqual([m["name"] for m in models],
                         ["siglip-base-patch16-224", "siglip-base-patch16-512", "smolvlm-256m-instruct", "smolvlm2-256m-video-instruct"])
        for model in models:
            shown = json.loads(self.run_models("show", model["name"], "--json", environment=own).stdout)
            self.assertEqual([f["name"] for f in shown["files"]], ["config.json", "model.safetensors"])
        self.assertEqual(self.run_models("licences", environment=own).stdout.count("Apache-2.0"), 4)
        self.assertEqual(self.hub.requests, [])

    def test_the_programs_own_defaults_complete_a_bare_configuration(self):
        own = self.environment()
        del own["LIGHTMILL_MANIFESTS"]
        tower = {"hidden_size": 768, "num_attention_heads": 12, "image_size": 512, "patch_size": 16}
        bare = {"google/siglip-base-patch16-224": {"model_type": "siglip"},
                "google/siglip-base-patch16-512": {"model_type": "siglip", "vision_config": {"image_size": 512}},
                "HuggingFaceTB/SmolVLM2-256M-Video-Instruct":
                    {"model_type": "smolvlm", "scale_factor": 4, "text_config": {"hidden_size": 576}, "vision_config": tower}}
        for repository, config in bare.items():
            folder = self.folder / ".cache/huggingface/hub" / f"models--{repository.replace('/', '--')}"
            (folder / "snapshots" / COMMIT).mkdir(parents=True)
            (folder / "refs").mkdir()
            (folder / "refs/main").write_text(COMMIT)
            (folder / "snapshots" / COMMIT / "config.json").write_text(json.dumps(config))
            shown = json.loads(self.run_models("show", repository.split("/")[1].lower(), "--json", environment=own).stdout)
            sources = {c["source"] for c in shown["config"]}
            self.assertTrue({"config.json", "manifest"} <= sources, shown["config"])

    def test_embed_takes_a_model_by_its_name(self):
        picture = pathlib.Path(__file__).resolve().parent.parent / "image/seeds/fuzz_image/waves_gray.jpg"
        offline = self.environment(HF_HUB_OFFLINE="1")

        def embed(code, *arguments):
            result = subprocess.run([PROGRAM, "embed", str(picture), "--model", "tiny", "-o", str(self.folder / "out.safetensors"), *arguments],
                                    capture_output=True, text=True, timeout=100, env=offline)
            self.assertEqual(result.returncode, code, result.stdout + result.stderr)
            return result
        self.assertIn("lightmill models fetch tiny", embed(6).stderr)
        self.run_models("make-seeded", "tiny", "-o", str(self.folder / "seeded"))
        self.run_models("import", str(self.folder / "seeded"), "--model", "tiny")
        embed(0)
        self.assertGreater((self.folder / "out.safetensors").stat().st_size, 1000)
        weights = self.folder / ".cache/huggingface/hub/models--owner--model/snapshots" / ("0" * 40) / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.resolve().write_bytes(content)
        self.assertIn("SHA-256", embed(3, "--overwrite").stderr)

    def test_where_models_lie_is_hugging_faces_to_say(self):
        for variable, folder in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub/"), ("XDG_CACHE_HOME", "huggingface/hub/")):
            place = self.folder / variable
            shown = json.loads(self.run_models("show", "tiny", "--json", environment=self.environment(**{variable: str(place)})).stdout)
            self.assertTrue(shown["files"][0]["path"].startswith(f"{place}/{folder}models--owner--model/snapshots/"), shown)


if __name__ == "__main__":
    names = sys.argv[2:]
    sys.argv = sys.argv[:1]
    unittest.main(argv=[sys.argv[0], *[f"Models.{n.removeprefix('Models.')}" for n in names]])
