"""One cell of the grid: a network on a model with so much memory, under every policy; run once and kept."""
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

GIB = 1 << 30
ITERATIONS = 8  # `pooch simulate` wants so many


def clean_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(("POOCH_", "SOFTGPU_", "LD_"))}


@dataclasses.dataclass(frozen=True)
class Cell:
    device: str
    memory: str
    network: str
    batch: int
    more: tuple = ()  # further options of the trainer
    host_memory: str = ""  # what pooch may page-lock; empty: its usual share of the host

    @property
    def name(self):
        size = "-".join([*(word.strip("-") for word in self.more), *([f"host-{self.host_memory}"] if self.host_memory else [])])
        return f"{self.device}-{self.memory}-{self.network}-{self.batch}" + (f"-{size}" if size else "")

    def environment(self):
        return {"POOCH_HOST_MEMORY": self.host_memory} if self.host_memory else {}

    def trainer(self, iterations=ITERATIONS):
        return ["--network", self.network, "--batch", str(self.batch), *self.more, "--iterations", str(iterations), "--json"]

    def numerics(self):
        """Where the program tries algorithms, policies that choose among them have something to choose from."""
        return ["--allow-numerics"] if "--benchmark-algorithms" in self.more else []

    def words(self, build="build", execute=False):
        return [f"{build}/tools/pooch", "simulate", "--device", f"soft:{self.device}", "--memory", self.memory,
                "--policy", "all", *(["--execute"] if execute else []), *self.numerics(), "--json", "--", f"{build}/examples/train",
                *self.trainer()]


class Result:
    """What `pooch simulate --json` said of a cell."""

    def __init__(self, data):
        self.in_core_ms = data["incore_ms"]
        self.batch = data.get("batch")
        self.rows = {row["policy"]: row for row in data["rows"]}

    def fits(self, policy):
        return self.rows[policy]["feasible"]

    def ms(self, policy):
        return self.rows[policy]["time_ms"]

    def overhead(self, policy):
        return self.rows[policy]["overhead"]

    def executed(self, policy):
        """Overhead when the plan was carried out, or None."""
        return (self.rows[policy].get("executed") or {}).get("overhead")

    def has_executed(self):
        return any(self.executed(policy) is not None for policy in self.rows)

    def images_per_s(self, policy):
        return self.batch * 1e3 / self.ms(policy)

    def in_core_images_per_s(self):
        return self.batch * 1e3 / self.in_core_ms

    def counts(self, policy):
        return tuple(self.rows[policy][of] for of in ("keep", "swap", "recompute"))

    def need_bytes(self):
        """What training takes when nothing leaves the device."""
        keep = self.rows["keep"]
        if keep["feasible"]:
            return keep["peak_bytes"]
        words = keep["why"].split()
        return int(words[words.index("bytes") - 1])

    def times_as_fast(self, policy, other):
        """How many times as fast `policy` is as `other`; None where one does not fit."""
        if not (self.fits(policy) and self.fits(other)):
            return None
        return self.ms(other) / self.ms(policy)


def fingerprint(build):
    """Of everything that a result depends on: another build measures again."""
    build = pathlib.Path(build)
    files = [build / "tools/pooch", build / "examples/train", build / "interpose/libpooch.so",
             *sorted(path for path in (build / "softgpu").rglob("*") if path.suffix == ".json" or ".so" in path.name)]
    digest = hashlib.sha256()
    for path in files:
        if path.is_file() and not path.name.endswith((".symbols", ".p")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Store:
    """JSON files in a folder, one a result; each knows the build that made it."""

    def __init__(self, folder, build):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.build = fingerprint(build)

    def get(self, name, any_build=False):
        path = self.folder / f"{name}.json"
        if not path.exists():
            return None
        kept = json.loads(path.read_text(encoding="utf-8"))
        return kept["result"] if any_build or kept["build"] == self.build else None

    def put(self, name, command, result):
        path = self.folder / f"{name}.json"
        temporary = path.with_suffix(f".{threading.get_ident()}")
        temporary.write_text(json.dumps({"build": self.build, "command": command, "result": result}, indent=1) + "\n",
                             encoding="utf-8")
        temporary.rename(path)


class Failed(Exception):
    pass


def run_json(words, timeout, environment=None):
    """A command's stdout as JSON."""
    try:
        done = subprocess.run(words, env={**clean_environment(), **(environment or {})}, capture_output=True, text=True,
                              timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"took more than {timeout:.0f} s: {' '.join(words)}") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Failed(f"exit code {done.returncode}, {last}: {' '.join(words)}")
    return json.loads(done.stdout)


class Runner:
    def __init__(self, build, store, jobs=2, seconds=3600.0, execute=False):
        self.build, self.store, self.jobs, self.execute = str(build), store, jobs, execute
        self.deadline = time.monotonic() + seconds
        self.failures = {}

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def one(self, cell):
        name = cell.name + ("-executed" if self.execute else "")
        data = self.store.get(name)
        if data is None:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise Failed(f"no time left for {name}")
            start = time.monotonic()
            data = run_json(cell.words(self.build, self.execute), left, cell.environment())
            assignments = [f"{key}={value}" for key, value in cell.environment().items()]
            self.store.put(name, " ".join([*assignments, *cell.words(execute=self.execute)]), data)
            self.say(f"{name}: {time.monotonic() - start:.0f} s")
        return Result(data)

    def all(self, cells):
        """Results by cell; cells that failed are in `failures`, with the reason."""
        results = {}
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            futures = {pool.submit(self.one, cell): cell for cell in dict.fromkeys(cells)}
            for future in concurrent.futures.as_completed(futures):
                cell = futures[future]
                try:
                    results[cell] = future.result()
                except Failed as why:
                    self.failures[cell.name] = str(why)
                    self.say(f"reproduce: {cell.name}: {why}")
        return {cell: results[cell] for cell in futures.values() if cell in results}
