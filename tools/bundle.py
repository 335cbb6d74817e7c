#!/usr/bin/python3
"""Makes a folder with pooch and everything it needs that runs from wherever it is put.

bundle.py BUILD_FOLDER VERSION DESTINATION

DESTINATION/pooch-VERSION-linux-x86_64 then has the program and the trainer (bin), the library, the software GPU and
the libraries of others (lib/pooch), and the tests for a GPU (tests). What it does not have is glibc, the driver and
CUDA's own libraries. Replaces what is there.
"""
import pathlib
import re
import shutil
import subprocess
import sys

NEWEST_GLIBC = (2, 36)
# Of every system, or of CUDA.
NOT_OURS = re.compile(r"^(ld-linux-x86-64|lib(c|m|dl|pthread|rt|util|resolv|cuda|cudart|cudnn|cublas|cublasLt|cupti))\.so")
SOURCE = pathlib.Path(__file__).resolve().parent.parent


def out_of(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def needed(path):
    return re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", out_of("readelf", "-d", path))


def newest_glibc(path):
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", out_of("readelf", "-VW", path))
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


class Bundle:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.programs = []  # everything that is ELF

    def place(self, source, *where):
        target = self.folder.joinpath(*where)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)  # a link's target, not the link
        return target

    def place_program(self, source, *where):
        target = self.place(source, *where)
        target.chmod(0o755)
        subprocess.run(["strip", "--strip-debug", str(target)], check=True)
        self.programs.append(target)

    def place_pooch(self):
        """The program, the library and the software GPU, in places relative to each other that they know."""
        self.place_program(self.build / "tools/pooch", "bin/pooch")
        self.place_program(self.build / "interpose/libpooch.so", "lib/pooch/libpooch.so")
        soft = self.build / "softgpu"
        for library in sorted(soft.glob("lib*.so.*")):
            if library.is_file():
                self.place_program(library, "lib/pooch/softgpu", library.name)
        for kernels in sorted(soft.glob("kernels/*.so")):
            self.place_program(kernels, "lib/pooch/softgpu/kernels", kernels.name)
        for model in sorted(soft.glob("models/*.json")):
            self.place(model, "lib/pooch/softgpu/models", model.name)

    def place_trainer(self, folder, data):
        self.place_program(self.build / "examples/train", folder, "train")
        self.place(SOURCE / "examples/data/digits.csv.gz", data, "digits.csv.gz")
        self.place(SOURCE / "examples/data/README.md", data, "digits.md")  # whose they are, and their licence

    def place_tests(self):
        for name in ("device_test", "facts", "cudnn_facts", "preload/real_libraries", "preload/libreal_libraries_spy.so"):
            self.place_program(self.build / "tests" / name, "tests/gpu", pathlib.Path(name).name)
        for folder in ("tests/gpu", "tests/bench", "examples/pytorch"):
            for script in sorted((SOURCE / folder).glob("*.py")):
                self.place(script, folder, script.name)
        for text in ("README.md", "docs/gpu-checks.md"):
            self.place(SOURCE / text, text)

    def place_others(self):
        """The libraries of others that ours need, and those that these need."""
        own = {program.name for program in self.programs}
        found, waiting = {}, list(self.programs)
        while waiting:
            program = waiting.pop()
            where = dict(re.findall(r"^\s*(\S+) => (/\S+)", out_of("ldd", self.origin(program)), re.M))
            for name in needed(program):
                if name in own or name in found or NOT_OURS.match(name):
                    continue
                if name not in where:
                    sys.exit(f"bundle: {program.name} needs {name}, which is not installed")
                found[name] = where[name]
                self.place_program(where[name], "lib/pooch/deps", name)
                waiting.append(self.programs[-1])
        self.place_licences(found.values())

    def place_licences(self, libraries):
        """Debian's texts on whose they are, with the licences that these refer to; others have no such place."""
        if not shutil.which("dpkg-query"):
            return
        # Its lists have some files in /lib and others in /usr/lib, whichever is the link.
        real = {str(pathlib.Path(library).resolve()) for library in libraries}
        said = subprocess.run(["dpkg-query", "-S", *real, *(path.removeprefix("/usr") for path in real)],
                              capture_output=True, text=True, check=False).stdout
        for package in sorted(set(re.findall(r"^([^:,\s]+)[:,]", said, re.M))):
            text = pathlib.Path("/usr/share/doc", package, "copyright")
            self.place(text, "lib/pooch/licences", package)
            for common in set(re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", text.read_text(encoding="utf-8"))):
                self.place(f"/usr/share/common-licenses/{common}", "lib/pooch/licences", common)

    def origin(self, program):
        """Where the linker finds what it needs: its own place for what we built."""
        for folder in ("tools", "examples", "interpose", "softgpu", "softgpu/kernels", "tests"):
            if (self.build / folder / program.name).is_file():
                return self.build / folder / program.name
        return program

    def make_relocatable(self):
        deps = self.folder / "lib/pooch/deps"
        for program in self.programs:
            up = "../" * len(program.parent.relative_to(self.folder).parts)
            path = "$ORIGIN" if program.parent == deps else f"$ORIGIN/{up}lib/pooch/deps"
            # The kind that also counts for what the libraries in there need.
            subprocess.run(["patchelf", "--force-rpath", "--set-rpath", path, str(program)], check=True)

    def newest_glibc(self):
        """The newest version that is needed, and a program that needs it."""
        return max((newest_glibc(program), program) for program in self.programs)

    def check(self):
        newest, program = self.newest_glibc()
        if newest > NEWEST_GLIBC:
            sys.exit(f"bundle: {program.name} needs glibc {newest[0]}.{newest[1]}; "
                     f"{NEWEST_GLIBC[0]}.{NEWEST_GLIBC[1]} is promised")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    build, version, destination = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    folder = destination / f"pooch-{version}-linux-x86_64"
    shutil.rmtree(folder, ignore_errors=True)
    bundle = Bundle(build, folder)
    bundle.place_pooch()
    bundle.place_trainer("bin", "share/pooch")
    bundle.place_tests()
    bundle.place_others()
    bundle.make_relocatable()
    bundle.check()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
