"""Where pooch's programs lie, in a build folder or in a bundle, and runs of them on a device."""
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import tempfile

MIB, GIB = 1 << 20, 1 << 30
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent  # of the source tree, or of the bundle
TESTS = {"device_test": "tests", "facts": "tests", "cudnn_facts": "tests", "real_libraries": "tests/preload",
         "libreal_libraries_spy.so": "tests/preload"}  # and where a build folder has them
NO_GPU = 77  # exit code of programs that need one


@dataclasses.dataclass
class Run:
    status: int
    out: str
    err: str
    summary: dict | None  # what pooch says
    device: dict | None  # what the software GPU says
    losses: list[str]
    weights: list[str]  # of the trainer, where the device computes: one hash each

    def result(self):
        """The JSON that the trainer prints."""
        return json.loads(self.out)

    def out_of_alias(self):
        """What pooch says, under POOCH_LOG=info, where the run was not in alias mode to its end; else None."""
        said = [line for line in self.err.splitlines() if "alias mode" in line]
        ends = [line for line in said if "alias mode ends" in line]
        if ends:
            return f"{ends[0].removeprefix('pooch: ')}, {len(ends)} times in all"
        return None if any("alias mode: " in line for line in said) else (said or ["alias mode is not spoken of"])[-1]

    def last_words(self):
        """The line of stderr that most likely says why: the first with an error, else the last."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()] or ["nothing on stderr"]
        return next((line for line in lines if re.search(r"error:|Error:|out of memory", line)), lines[-1])[:400]


class Device:
    def __init__(self, text):
        self.text = text
        self.software = text.startswith("soft:")
        self.timing = self.software and ":timing" in text
        self.clock = "virtual time of the software GPU" if self.software else "events of the device"


class Programs:
    """`folder`: a build folder or a bundle; without one the bundle around this file, else the folder `build` of the source tree."""

    def __init__(self, folder=None, logs=None, seconds=550):
        """`logs`: a folder for all that each run says. `seconds`: what one run may take."""
        self.logs, self.seconds, self.count = logs and pathlib.Path(logs), seconds, 0
        if folder is None:
            folder = ROOT if (ROOT / "bin/pooch").exists() else ROOT / "build"
        self.folder = pathlib.Path(folder).resolve()
        if (self.folder / "bin/pooch").exists():
            places = {"pooch": "bin/pooch", "train": "bin/train", "softgpu": "lib/pooch/softgpu"} | {name: f"tests/gpu/{name}" for name in TESTS}
        else:
            places = {"pooch": "tools/pooch", "train": "examples/train", "softgpu": "softgpu"} | \
                {name: f"{place}/{name}" for name, place in TESTS.items()}
        self.pooch, self.train, self.softgpu, self.device_test, self.facts, self.cudnn_facts, self.real_libraries, self.spy = (
            self.folder / places[name] for name in ("pooch", "train", "softgpu", *TESTS))
        self.examples = ROOT / "examples/pytorch"

    def keep(self, said):
        """Writes down what was run and what it said, where that is wanted."""
        if self.logs is None:
            return
        self.logs.mkdir(parents=True, exist_ok=True)
        self.count += 1
        text = {name: part.decode(errors="replace") if isinstance(part, bytes) else part or "" for name, part in said.items()}
        (self.logs / f"{os.getpid()}-{self.count:03}.txt").write_text(
            "".join(f"=== {name}\n{part}\n" for name, part in text.items()), encoding="utf-8")

    def run(self, device, command, *options, env=None):
        """`pooch run --device DEVICE OPTIONS -- COMMAND`; without --no-pooch with a summary. The trainer's losses and weights
        come along where it is the command. Raises what subprocess.run does."""
        with tempfile.TemporaryDirectory() as folder:
            files = {name: pathlib.Path(folder, name) for name in ("summary", "device", "losses", "weights")}
            command = [str(word) for word in command]
            if command[0] == str(self.train):
                command += ["--loss-log", str(files["losses"])]
                if not device.timing:
                    command += ["--weights-log", str(files["weights"])]
            if "--no-pooch" not in options:
                options = (*options, "--summary", str(files["summary"]))
            environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "SOFTGPU_", "LD_PRELOAD"))}
            environment |= {"POOCH_CACHE": f"{folder}/plans", "SOFTGPU_REPORT": str(files["device"])} | (env or {})
            words = [str(self.pooch), "run", "--device", device.text, *options, "--", *command]
            shown = " ".join([*(f"{name}={value}" for name, value in (env or {}).items()), *words])
            try:
                done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=self.seconds)
            except subprocess.TimeoutExpired as error:
                self.keep({"command": shown, "status": f"ended after {self.seconds} s", "stdout": error.stdout, "stderr": error.stderr})
                raise
            text = {name: path.read_text(encoding="utf-8") if path.exists() else "" for name, path in files.items()}
        self.keep({"command": shown, "status": str(done.returncode), "stdout": done.stdout, "stderr": done.stderr, "summary": text["summary"]})
        return Run(done.returncode, done.stdout, done.stderr, json.loads(text["summary"] or "null"),
                   json.loads(text["device"] or "null"), text["losses"].splitlines(), text["weights"].splitlines())

    def libpooch(self):
        """The library that `pooch run` preloads."""
        return pathlib.Path(subprocess.run([self.pooch, "path"], capture_output=True, text=True, timeout=60, check=True).stdout.strip())

    def policies(self):
        """Those that make plans, as the program itself lists them."""
        said = subprocess.run([str(self.pooch), "plan", "--help"], capture_output=True, text=True, timeout=60).stdout
        line = next(line for line in said.splitlines() if line.strip().startswith("--policy"))
        return [name.strip() for name in line.split(":", 1)[1].split(",")]
