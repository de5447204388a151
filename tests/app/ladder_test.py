"""The program's ladder from end to end. ladder_test.py PROGRAM [CLASS...] runs the test classes named, or all."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
LADDERS = pathlib.Path(__file__).resolve().parent.parent.parent / "ladders"

# Takes the machine as it is: tests run beside others. A null arm of 12 rounds fails by chance once in two thousand.
LADDER = """
name = "small"
subject = "{subject}"
[work]
{work}
[policy]
rounds = {rounds}
repetitions = 2
busy_wait_s = 0
alpha = 0.001
[[rung]]
id = "a"
status = "reference"
[[rung]]
id = "b"
before = "a"
{b}
"""


def run(*arguments, code=0):
    """Runs the program; fails with its output where the exit code is another."""
    result = subprocess.run([PROGRAM, "ladder", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if result.returncode != code:
        raise AssertionError(f"{' '.join(map(str, arguments))}: exit code {result.returncode}, expected {code}\n{result.stdout}\n{result.stderr}")
    return result


class Ladder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lightmill_"))
        self.out = self.folder / "session"

    def tearDown(self):
        shutil.rmtree(self.folder)

    def ladder(self, subject="demo", work="milliseconds = 2", rounds=2, b="config = { speed = 2.0 }"):
        path = self.folder / "small.toml"
        path.write_text(LADDER.format(subject=subject, work=work, rounds=rounds, b=b))
        return path

    def refused(self, code, *arguments, says):
        result = run(*arguments, code=code)
        for part in says:
            self.assertIn(part, result.stderr)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)

    def test_every_verb_shows_an_example(self):
        for verb in ["run", "show", "report", "compare", "probe"]:
            text = run(verb, "--help").stdout
            self.assertIn("Example", text)
            self.assertIn(f"lightmill ladder {verb}", text)

    def test_every_ladder_of_the_project_can_be_shown(self):
        ladders = sorted(LADDERS.glob("**/*.toml"))
        self.assertGreaterEqual(len(ladders), 5)
        for path in ladders:
            self.assertIn("rungs run here", run("show", path).stdout)

    def test_an_estimate_is_told_and_nothing_is_left(self):
        before = set(os.listdir("/dev/shm"))
        text = run("show", self.ladder(rounds=30), "--estimate", "-q").stdout
        self.assertRegex(text, r"3 arms, 30 rounds, 2 repetitions a process. From one repetition of each: about \d")
        self.assertEqual(list(self.folder.iterdir()), [self.folder / "small.toml"])
        self.assertEqual([name for name in set(os.listdir("/dev/shm")) - before if "show" in name], [])

    def test_nothing_is_no_number(self):
        for option in ["--rounds", "--budget"]:
            self.refused(2, "run", self.ladder(), "-o", self.out, option, 0, says=[option[2:], "found 0", "expected"])
        self.assertFalse(self.out.exists())

    def test_a_session_from_its_plan_to_its_report(self):
        result = run("run", self.ladder(rounds=12), "-o", self.out)
        self.assertIn("From one repetition of each: about", result.stderr.splitlines()[0])
        self.assertIn("12 rounds", result.stdout)
        summary = json.loads(run("report", self.out, "--json").stdout)
        b = next(rung for rung in summary["rungs"] if rung["id"] == "b")
        self.assertEqual(b["state"], "timed")
        self.assertGreater(b["against_reference"]["ratio"], 1.5)
        for name in ["rows.csv", "gate.csv", "session.json", "env.json", "ladder.toml", "summary.md", "report.html", "manifest.json"]:
            self.assertTrue((self.out / name).exists(), name)
        self.assertIn("b ", run("compare", self.out, self.out).stdout)
        self.refused(2, "run", self.ladder(), "-o", self.out, says=["--resume"])

    def test_an_interrupted_session_says_how_to_go_on(self):
        path = self.ladder(rounds=200)
        process = subprocess.Popen([PROGRAM, "ladder", "run", path, "-o", self.out, "--rungs", "b"], stderr=subprocess.PIPE, text=True)
        rows = self.out / "rows.csv"
        for _ in range(2000):
            if rows.exists() and len(rows.read_text().splitlines()) > 10:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 130, said)
        self.assertIn(f"go on with: lightmill ladder run {path} -o {self.out} --resume", said)
        before = rows.read_text()
        self.refused(2, "run", path, "-o", self.out, "--resume", "--rounds", 3, says=["rounds", "a session goes on as it began"])
        self.assertEqual(rows.read_text(), before)

    def test_a_floor_that_is_passed_is_an_error(self):
        probe = {"format": "lightmill probe 1", "page_fault_s": 1e-6, "huge_page_fault_s": 0, "clock_resolution_s": 1e-9, "gpu": "", "notes": [],
                 "environment": {}, "took_s": 1,
                 "ceilings": [{"resource": "fma_f64", "threads": 1, "best": 1e6, "median": 1e6, "passes": 5, "how": "none"}]}
        path = self.folder / "probe.json"
        path.write_text(json.dumps(probe))
        ladder = self.ladder(subject="matrix", work="size = 64", b='config = { version = "rows" }')
        text = run("run", ladder, "-o", self.out, "--probe", path).stdout
        self.assertIn("% of its floor: an error in the declared work or in the probe, not a win", text)
        self.assertRegex(text, r"\d % !")
        self.assertIn("of the floor: error", (self.out / "report.html").read_text())
        path.write_text("{}")
        self.refused(3, "run", ladder, "-o", self.folder / "other", "--probe", path, says=["probe.json", "write it again with"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
