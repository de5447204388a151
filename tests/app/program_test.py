"""The program from end to end: what it finds, what it says, how it ends, and how it goes on.

program_test.py PROGRAM [CLASS...] runs the test classes named, or all."""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import h5py
import numpy as np

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
VERBS = ["simulate", "pedestal", "find", "verify", "info"]


def run(*arguments, code=0, **keywords):
    """Runs the program; fails with its output where the exit code is another."""
    result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, **keywords)
    if result.returncode != code:
        raise AssertionError(f"{' '.join(map(str, arguments))}: exit code {result.returncode}, expected {code}\n{result.stdout}\n{result.stderr}")
    return result


def find_json(*arguments, **keywords):
    return json.loads(run("find", *arguments, "--json", **keywords).stdout)


class Program(unittest.TestCase):
    """A folder with small dark and data frames, made once for each class."""

    SHAPE = ("--rows", 60, "--columns", 70, "--photons", 60)
    DARK, DATA = 200, 120

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lightmill_"))
        cls.dark, cls.data = cls.folder / "dark.npy", cls.folder / "data.npy"
        run("simulate", cls.dark, "--dark", "--frames", cls.DARK, *cls.SHAPE)
        run("simulate", cls.data, "--frames", cls.DATA, *cls.SHAPE)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def path(self, name):
        return self.folder / f"{self._testMethodName}_{name}"

    def refused(self, code, *arguments, says):
        """The command ends with this code and a message that holds every part of `says`."""
        result = run(*arguments, code=code)
        for part in says:
            self.assertIn(part, result.stderr)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)


class Help(Program):
    def test_every_verb_shows_an_example(self):
        for verb in VERBS:
            text = run(verb, "--help").stdout
            self.assertIn("Example", text)
            self.assertIn(f"lightmill {verb}", text)

    def test_nothing_and_nonsense_are_usage_errors(self):
        self.refused(2, says=["a verb is missing", *VERBS])
        self.refused(2, "fnd", says=["fnd is not a verb", "did you mean find?"])
        self.refused(2, "frobnicate", says=["frobnicate is not a verb", "simulate"])
        self.refused(2, "find", self.data, "--no-such-option", says=["lightmill find: --no-such-option is not an option"])
        self.refused(2, "find", self.data, "--n-sigm=4", says=["did you mean --n-sigma?"])
        self.refused(2, "find", self.data, says=["--pedestal is required"])
        self.assertIn("lightmill 0", run("--version").stdout)

    def test_ranges_stand_in_the_help(self):
        self.assertIn("a number above 0 up to 1", run("find", "--help").stdout)

    def test_an_answer_that_cannot_be_printed_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([PROGRAM, "find", self.data, "--pedestal", self.dark, "--no-output", "--json"], stdout=full,
                                    stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 4)
        self.assertIn("No space left", result.stderr)


class Finding(Program):
    def test_summary_has_every_field(self):
        summary = find_json(self.data, "--pedestal", self.dark, "--no-output")
        for field in ["frames", "clusters", "digest", "model_digest", "frames_per_second", "find_seconds", "wall_seconds", "absent_pixels",
                      "missing_frames", "hot_pixels", "backend", "threads", "options", "version"]:
            self.assertIn(field, summary)
        self.assertEqual(summary["frames"], self.DATA)
        self.assertGreater(summary["clusters"], 30 * self.DATA)

    def test_the_answer_is_the_same_however_the_work_is_shared(self):
        for options in [(), ("--window", "9x5"), ("--epoch", 7), ("--ties", "all"), ("--rule", "per_stream", "--streams", 3)]:
            digests = set()
            for way in [("--backend", "reference"), ("--backend", "simd", "--threads", 1), ("--threads", 3), ("--payload", "int16")]:
                summary = find_json(self.data, "--pedestal", self.dark, "--no-output", *options, *way)
                digests.add((summary["digest"], summary["model_digest"]))
            self.assertEqual(len(digests), 1, options)

    def test_the_file_opens_in_three_lines(self):
        summary = find_json(self.data, "--pedestal", self.dark, "-o", self.path("out.h5"))
        with h5py.File(self.path("out.h5")) as f:
            clusters = f["clusters"]
            self.assertEqual(clusters["row"].shape, (summary["clusters"],))
            self.assertEqual(clusters["data"].shape, (summary["clusters"], 3, 3))
            self.assertEqual(clusters["offset"].shape, (self.DATA + 1,))
            self.assertEqual(clusters["offset"][-1], summary["clusters"])
            self.assertTrue((clusters["data"][:, 1, 1] == clusters["data"][:].max(axis=(1, 2))).all())
        self.assertFalse(pathlib.Path(f"{self.path('out.h5')}.partial").exists())

    def test_a_saved_pedestal_gives_the_same_answer(self):
        saved = self.path("pedestal.h5")
        run("pedestal", self.dark, "-o", saved)
        a = find_json(self.data, "--pedestal", saved, "--no-output")
        b = find_json(self.data, "--pedestal", self.dark, "--no-output")
        self.assertEqual((a["digest"], a["model_digest"]), (b["digest"], b["model_digest"]))

    def test_verify_finds_a_changed_value(self):
        out = self.path("out.h5")
        run("find", self.data, "--pedestal", self.dark, "-o", out)
        self.assertIn("equal, cluster for cluster", run("verify", out, self.data, "--backend", "reference").stdout)
        with h5py.File(out, "r+") as f:
            f["clusters/data"][17, 0, 2] += 1
        self.assertIn("NOT as stored", run("verify", out, code=1).stdout)
        self.assertIn("first difference", run("verify", out, self.data, code=1).stdout)

    def test_part_of_the_frames_and_a_region(self):
        summary = find_json(self.data, "--pedestal", self.dark, "-o", self.path("out.h5"), "--frames", "10:30", "--roi", "0:40,8:60")
        self.assertEqual(summary["frames"], 20)
        with h5py.File(self.path("out.h5")) as f:
            self.assertEqual(f["clusters/frame_number"][0], 10)
            self.assertLess(f["clusters/row"][:].max(), 40)
            self.assertLess(f["clusters/column"][:].max(), 52)
        run("verify", self.path("out.h5"), self.data)

    def test_a_mask_silences_its_pixels(self):
        mask = np.zeros((60, 70), bool)
        mask[10:20, 10:20] = True
        np.save(self.path("mask.npy"), mask)
        summary = find_json(self.data, "--pedestal", self.dark, "-o", self.path("out.h5"), "--mask", self.path("mask.npy"))
        self.assertEqual(summary["absent_pixels"]["masked"], 100)
        with h5py.File(self.path("out.h5")) as f:
            row, column = f["clusters/row"][:], f["clusters/column"][:]
            self.assertFalse(((row >= 10) & (row < 20) & (column >= 10) & (column < 20)).any())

    def test_one_row_of_pixels_works(self):
        shape = ("--rows", 1, "--columns", 3000, "--photons", 20)
        run("simulate", self.path("d.npy"), "--dark", "--frames", 100, *shape)
        run("simulate", self.path("f.npy"), "--frames", 50, *shape)
        self.assertGreater(find_json(self.path("f.npy"), "--pedestal", self.path("d.npy"), "--no-output", "--window", "21x21")["clusters"], 500)

    def test_pictures_are_written(self):
        run("find", self.data, "--pedestal", self.dark, "--no-output", "--plots", self.path("p"))
        for name in ["spectrum", "hit_map"]:
            self.assertEqual(pathlib.Path(f"{self.path('p')}_{name}.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_nothing_but_the_answer_when_piped(self):
        self.assertEqual(run("find", self.data, "--pedestal", self.dark, "--no-output").stderr, "")
        self.assertEqual(run("find", self.data, "--pedestal", self.dark, "--no-output", "--quiet").stdout, "")

    def test_every_source_gives_the_same_clusters(self):
        digests = set()
        for name in ["data.npy", "data.h5", "data.json"]:
            run("simulate", self.path(name), "--frames", 40, *self.SHAPE)
            summary = find_json(self.path(name) if not name.endswith("json") else master(self.folder, self.path("data")), "--pedestal",
                                self.dark, "-o", self.path(name + ".out.h5"), "--absent", "none", "--no-gain-bits")
            with h5py.File(self.path(name + ".out.h5")) as f:
                digests.add(f["clusters/data"][:].tobytes() + f["clusters/row"][:].tobytes())
            self.assertEqual(summary["frames"], 40)
        self.assertEqual(len(digests), 1)


def master(folder, stem):
    found = sorted(folder.glob(stem.name + "*.json"))
    return found[0]


class Refusals(Program):
    def find(self, code, *arguments, says, data=None):
        self.refused(code, "find", data or self.data, "--pedestal", self.dark, "--no-output", *arguments, says=says)

    def test_options(self):
        self.find(2, "--window", "4x4", says=["window", "4x4", "21x21"])
        self.find(2, "--window", "3x23", says=["window", "3x23"])
        self.find(2, "--n-sigma", "0", says=["n_sigma", "found 0"])
        self.find(2, "--n-sigma", "-3", says=["n_sigma"])
        self.find(2, "--n-sigma", "nan", says=["n_sigma", "nan"])
        self.find(2, "--n-sigma", "five", says=["n_sigma: found five, expected a number above 0"])
        self.find(2, "--epoch", "1.5", says=["epoch: found 1.5, expected a whole number from 1"])
        self.find(2, "--memory", "99999999999999999999", says=["memory", "whole number"])
        self.find(2, "--epoch", "0", says=["epoch"])
        self.find(2, "--threads", "-1", says=["threads"])
        self.find(2, "--backend", "cray", says=["cray", "reference"])
        self.find(2, "--rule", "best", says=["best", "snapshot"])
        self.find(2, "--frames", "5", says=["frames", "5"])
        self.find(2, "--frames", "100:5000", says=["frames"])
        self.find(2, "--roi", "0:10", says=["roi"])
        self.find(2, "--roi", "0:10,60:90", says=["roi"])
        self.find(2, "--absent", "70000", says=["absent", "70000"])
        self.find(2, "--pedestal-frames", "1000", says=["pedestal_frames", f"found {self.DARK} dark frames", "1000"])
        self.refused(2, "find", self.data, "--pedestal", self.dark, says=["output", "--no-output"])

    def test_a_value_that_int16_cannot_hold(self):
        frames = np.load(self.data)
        frames[3, 20, 30] = 65000
        np.save(self.path("hot.npy"), frames)
        self.find(5, "--payload", "int16", says=["row 20, column 30", "int32"], data=self.path("hot.npy"))

    def test_files(self):
        self.find(4, says=["no_such.npy", "No such file"], data=self.path("no_such.npy"))
        self.find(4, says=[str(self.folder)], data=self.folder)
        for name, array, says in [("fortran", np.asfortranarray(np.zeros((4, 60, 70), "<u2")), ["Fortran"]),
                                  ("float", np.zeros((4, 60, 70)), ["<f8"]),
                                  ("big", np.zeros((4, 60, 70), ">u2"), ["big-endian"]),
                                  ("flat", np.zeros((60, 70), "<u2"), ["two dimensions"])]:
            np.save(self.path(name + ".npy"), array)
            self.find(3, says=[name + ".npy", *says], data=self.path(name + ".npy"))
        np.save(self.path("none.npy"), np.zeros((0, 60, 70), "<u2"))
        self.find(3, says=["none.npy", "no frames"], data=self.path("none.npy"))
        whole = self.data.read_bytes()
        self.path("cut.npy").write_bytes(whole[:-100])
        self.find(3, says=["cut.npy", "truncated"], data=self.path("cut.npy"))
        self.path("garbage.npy").write_bytes(b"not frames at all")
        self.find(3, says=["garbage.npy"], data=self.path("garbage.npy"))
        self.path("empty.h5").write_bytes(b"")
        run("find", self.path("empty.h5"), "--pedestal", self.dark, "--no-output", code=3)

    def test_shapes(self):
        np.save(self.path("other.npy"), np.zeros((4, 60, 71), "<u2"))
        self.find(2, says=["60x71", "60x70"], data=self.path("other.npy"))
        np.save(self.path("mask.npy"), np.zeros((60, 71), bool))
        self.find(2, "--mask", self.path("mask.npy"), says=["mask", "60x71"])

    def test_hdf5_datasets(self):
        with h5py.File(self.path("two.h5"), "w") as f:
            f["a"] = np.zeros((4, 60, 70), "<u2")
            f["b"] = np.zeros((4, 60, 70), "<u2")
        self.find(3, says=["a", "b", "dataset"], data=self.path("two.h5"))
        self.find(3, "--dataset", "/c", says=["/c"], data=self.path("two.h5"))
        self.assertEqual(find_json(self.path("two.h5"), "--pedestal", self.dark, "--no-output", "--dataset", "/a")["frames"], 4)

    def test_outputs(self):
        out = self.path("out.h5")
        out.write_text("precious")
        self.refused(4, "find", self.data, "--pedestal", self.dark, "-o", out, says=["--overwrite"])
        self.assertEqual(out.read_text(), "precious")
        run("find", self.data, "--pedestal", self.dark, "-o", out, "--overwrite")
        self.refused(4, "find", self.data, "--pedestal", self.dark, "-o", self.folder / "no" / "out.h5", says=["no"])
        self.refused(4, "pedestal", self.dark, "-o", out, says=["--overwrite"])
        self.refused(4, "simulate", self.data, "--frames", 1, says=["--overwrite"])

    def test_not_a_result(self):
        self.refused(3, "verify", self.data, says=[self.data.name])

    def test_a_folder_that_cannot_be_written(self):
        if os.geteuid() == 0:
            self.skipTest("skipped: root may write everywhere")
        sealed = self.path("sealed")
        sealed.mkdir(mode=0o500)
        self.refused(4, "find", self.data, "--pedestal", self.dark, "-o", sealed / "out.h5", says=["permission"])

    def test_a_full_disk(self):
        small = self.path("disk")
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(small)], capture_output=True).returncode != 0:
            self.skipTest("skipped: no right to mount a small file system here")
        try:
            result = run("find", self.data, "--pedestal", self.dark, "-o", small / "out.h5", code=4)
            self.assertIn("space", result.stderr.lower())
            self.assertFalse((small / "out.h5").exists())
        finally:
            subprocess.run(["umount", str(small)], check=True)


class Runs(Program):
    """Receiver files that are not what they should be; the run was whole before."""

    DATA = 30

    def setUp(self):
        stem = self.folder / self._testMethodName.removeprefix("test_").replace("master", "main")
        run("simulate", f"{stem}.json", "--frames", self.DATA, *self.SHAPE)
        self.master = pathlib.Path(f"{stem}_master_0.json")
        self.raw = pathlib.Path(f"{stem}_d0_f0_0.raw")
        self.record = self.raw.stat().st_size // self.DATA

    def find(self, **keywords):
        return find_json(self.master, "--pedestal", self.dark, "--no-output", **keywords)

    def no_run(self, code, *says):
        for verb in [("find", self.master, "--pedestal", self.dark, "--no-output"), ("find", self.data, "--pedestal", self.master, "--no-output"),
                     ("pedestal", self.master, "-o", self.path("p.h5"))]:
            self.refused(code, *verb, says=says)
        self.assertFalse(self.path("p.h5").exists())

    def change(self, **keys):
        text = json.loads(self.master.read_text())
        text.update({key.replace("_", " "): value for key, value in keys.items()})
        self.master.write_text(json.dumps(text))

    def number(self, frame, value):
        with open(self.raw, "r+b") as f:
            f.seek(frame * self.record)
            f.write(value.to_bytes(8, "little"))

    def numbers(self):
        data = self.raw.read_bytes()
        return [int.from_bytes(data[i * self.record:i * self.record + 8], "little") for i in range(self.DATA)]

    def test_truncated(self):
        for size in [self.DATA * self.record - 1, self.record + 50, 10]:
            os.truncate(self.raw, size)
            self.no_run(3, self.raw.name, "truncated", f"byte {size // self.record * self.record}")

    def test_data_file_missing(self):
        self.raw.unlink()
        self.no_run(4, self.raw.name)

    def test_master_files(self):
        whole = self.master.read_text()
        for text in ["", "{", "[]", "null", whole[:200], '{"Version": 7.2}']:
            self.master.write_text(text)
            self.no_run(3, self.master.name)
        self.master.write_text(whole)
        for keys in [{"Pixels": {"x": -70, "y": 60}}, {"Pixels": {"x": 10**9, "y": 10**9}}, {"Pixels": {"x": 0, "y": 0}}, {"Pixels": "70x60"},
                     {"Geometry": {"x": 10**6, "y": 10**6}}, {"Geometry": {"x": -1, "y": 1}}, {"Frames_in_File": -5}, {"Frames_in_File": 10**15},
                     {"Max_Frames_Per_File": -1}, {"Dynamic_Range": 4}, {"Version": 6.1}, {"Version": "new"}, {"Detector_Type": "Camera"},
                     {"Image_Size_in_bytes": 17}]:
            self.master.write_text(whole)
            self.change(**keys)
            with self.subTest(keys):
                self.no_run(3, self.master.stem.removesuffix("_master_0"))

    def test_frame_numbers_are_reported(self):
        first = self.numbers()[0]
        self.assertEqual(self.numbers(), list(range(first, first + self.DATA)))
        self.assertEqual((self.find()["missing_frames"], self.find()["repeated_frames"]), (0, 0))
        self.number(5, first + 4)  # 5 never came, 4 came twice
        self.number(20, first + 21)  # 20 and 21 came the wrong way round
        self.number(21, first + 20)
        summary = self.find()
        self.assertEqual((summary["missing_frame_numbers"], summary["repeated_frame_numbers"], summary["out_of_order_frame_numbers"]),
                         ([first + 5], [first + 4], [first + 20]))
        self.assertIn(f"missing        1 frames: {first + 5}", run("find", self.master, "--pedestal", self.dark, "--no-output").stdout)


class Large(Program):
    def test_two_million_frames(self):
        rng = np.random.default_rng(1)
        np.save(self.path("dark.npy"), rng.normal(1000, 10, (500, 3, 4)).astype("<u2"))
        data = np.tile(rng.normal(1000, 10, (2000, 3, 4)).astype("<u2"), (1000, 1, 1))
        data[::4, 1, 1] += 500
        np.save(self.path("data.npy"), data)
        summary = find_json(self.path("data.npy"), "--pedestal", self.path("dark.npy"), "-o", self.path("out.h5"))
        self.assertEqual(summary["frames"], 2_000_000)
        self.assertGreaterEqual(summary["clusters"], 500_000)
        with h5py.File(self.path("out.h5")) as f:
            self.assertEqual(f["clusters/offset"].shape, (2_000_001,))
            self.assertEqual(f["clusters/offset"][-1], summary["clusters"])


class Interruptions(Program):
    SHAPE = ("--rows", 200, "--columns", 200, "--photons", 600)
    DARK, DATA = 50, 2000

    def start(self, out, *options):
        return subprocess.Popen([PROGRAM, "find", self.data, "--pedestal", self.dark, "-o", out, "--backend", "simd_portable", "--threads", "1",
                                 "--checkpoint-seconds", "0.1", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_until_written(self, out, size_bytes):
        """Until the growing file (some 50 MB in the end) is so long: in mid-run, however fast the machine."""
        partial = pathlib.Path(f"{out}.partial")
        deadline = time.monotonic() + 60
        while not partial.exists() or partial.stat().st_size < size_bytes:
            self.assertLess(time.monotonic(), deadline, "the file does not grow")
            time.sleep(0.002)

    def whole(self, *options):
        summary = find_json(self.data, "--pedestal", self.dark, "--no-output", *options)
        return summary["digest"], summary["model_digest"]

    def resumed(self, out, *options):
        summary = find_json(self.data, "--pedestal", self.dark, "-o", out, "--resume", *options)
        self.assertEqual(summary["frames"], self.DATA)
        self.assertTrue(out.exists())
        run("verify", out)
        return summary["digest"], summary["model_digest"]

    def test_signals_leave_whole_frames_and_resume_gives_the_same_digests(self):
        for signal_number, code, options in [(signal.SIGINT, 130, ()), (signal.SIGTERM, 143, ("--epoch", "32"))]:
            out = self.path(f"{code}.h5")
            process = self.start(out, *options)
            self.wait_until_written(out, 3_000_000)
            process.send_signal(signal_number)
            _, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, code, error)
            self.assertIn("--resume", error)
            partial = pathlib.Path(f"{out}.partial")
            with h5py.File(partial) as f:
                frames = f["clusters/frame_number"].shape[0]
            self.assertGreater(frames, 0)
            self.assertLess(frames, self.DATA)
            run("verify", partial)
            self.assertEqual(self.resumed(out, *options), self.whole(*options))

    def test_a_killed_run_goes_on_from_its_last_checkpoint(self):
        whole = self.whole()
        for size in [1_000_000, 5_000_000, 15_000_000]:
            out = self.path(f"{size}.h5")
            process = self.start(out)
            self.wait_until_written(out, size)
            process.kill()
            process.communicate()
            self.assertFalse(out.exists())
            self.assertEqual(self.resumed(out), whole)

    def test_a_signal_while_training(self):
        dark = [self.data] * 40  # some seconds of reading
        for verb in [("pedestal", *dark, "-o", self.path("p.h5")), ("find", self.data, "--pedestal", *dark, "-o", self.path("out.h5"))]:
            process = subprocess.Popen([PROGRAM, *map(str, verb)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, error)
            self.assertIn("dark frames", error)
        self.assertEqual(list(self.folder.glob(f"{self._testMethodName}*")), [])

    def test_memory_does_not_grow_with_the_run(self):
        shape = ("--rows", 400, "--columns", 400)
        run("simulate", self.path("long.npy"), "--frames", 2500, *shape)
        run("simulate", self.path("dark.npy"), "--dark", "--frames", 50, *shape)
        process = subprocess.Popen([PROGRAM, "find", self.path("long.npy"), "--pedestal", self.path("dark.npy"), "-o", self.path("out.h5"), "--quiet"])
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(status, 0)
        self.assertLess(usage.ru_maxrss, 400 * 1024, "KiB; the file alone has 800,000")
        for name in ["long.npy", "dark.npy", "out.h5"]:
            self.path(name).unlink()


class Peer(Program):
    """Rule raster against the release of the peer that it follows, cluster for cluster."""

    SHAPE = ("--rows", 400, "--columns", 400)
    DARK, DATA = 1000, 1000
    # lightmill find data.npy --pedestal dark.npy --rule raster on the frames of this class; equal to
    # aare 2026.3.17 cluster for cluster when it was made.
    GOLDEN = "09bb53b6c90e3c445cf34844cce9410675dac3c889897082a87b1d314c1fdd04"

    def test_raster_is_the_peer(self):
        out = self.path("out.h5")
        summary = find_json(self.data, "--pedestal", self.dark, "-o", out, "--rule", "raster")
        self.assertEqual(summary["digest"], self.GOLDEN)
        peer = os.environ.get("LIGHTMILL_PEER_PYTHON")
        if not peer:
            self.skipTest("skipped: raster_is_the_peer needs aare 2026.3.17 (LIGHTMILL_PEER_PYTHON); its golden digest was compared instead")
        theirs = self.path("theirs.npz")
        subprocess.run([peer, str(REPOSITORY / "tests/app/peer_clusters.py"), str(self.dark), str(self.data), str(theirs)], check=True)
        theirs = np.load(theirs)
        with h5py.File(out) as f:
            np.testing.assert_array_equal(np.diff(f["clusters/offset"][:]), theirs["counts"])
            np.testing.assert_array_equal(f["clusters/row"][:], theirs["row"])
            np.testing.assert_array_equal(f["clusters/column"][:], theirs["column"])
            np.testing.assert_array_equal(f["clusters/data"][:], theirs["data"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
