"""Who may include whom: the table of docs/architecture.md, as a test.

usage: layers.py SOURCE_ROOT
"""
import pathlib
import re
import sys

CUDA = {"cuda.h", "cudaProfiler.h", "vector_types.h", "cudaTypedefs.h", "cuda_runtime.h", "cuda_runtime_api.h", "cudnn.h", "cublas_v2.h", "cublas_api.h", "cublasLt.h",
        "driver_types.h"}
SESSION = "runtime/session/session.h"  # all that interpose/ sees of it


def rooms(folder, below, foreign, order):
    """Rules for the sub-folders of one: each may include itself, what is named for it, and what lies below the folder. Named are
    rooms of the folder, and headers by their path from the root."""
    return {f"{folder}/{room}": ([each if each.endswith(".h") else f"{folder}/{each}/" for each in (room, *others)] + below, foreign)
            for room, others in order.items()}


# Headers that all libraries of the software GPU may share.
SHARED = [f"softgpu/{each}.h" for each in ("activity", "bfloat", "device_options", "hash", "image", "lanes", "meaning", "per_thread")]

# How they reach the driver and launch kernels.
KERNELS = ["softgpu/cudart/driver.h", "softgpu/cudart/kernel_library.h"]


def library(name, *others, foreign=()):
    """The rule of a library of the software GPU without rooms."""
    return {f"softgpu/{name}": ([f"softgpu/{name}/", *SHARED, *others], [*CUDA, *foreign])}


# folder: (own project folders or single headers it may include, third-party headers by prefix). The longest that fits counts.
LAYERS = {
    "core": (["core/"], ["fmt/", "nlohmann/"]),
    "tracker": (["tracker/", "core/"], ["fmt/"]),
    "policy": (["policy/", "core/"], ["fmt/", "tbb/", "ClpSimplex.hpp"]),
    "cupti": (["cupti/", "core/"], ["fmt/", "cupti.h"]),
    **rooms("runtime", ["core/", "tracker/", "cupti/"], ["fmt/", "nvtx3/"], {
        "observe": (),
        "memory": ("observe",),
        "processes": ("observe",),
        "placement": ("memory", "observe"),
        "execution": ("script", "placement", "memory", "observe"),
        "planning": ("execution", "script", "memory", "observe", "processes"),
        "session": ("planning", "execution", "placement", "memory", "observe", "processes"),
    }),
    "runtime/script": (["runtime/script/", "core/"], ["fmt/"]),
    **rooms("interpose", ["core/"], ["fmt/", *CUDA], {
        "hooks": (),
        "callsites": ("hooks",),
        "device": ("hooks", "interpose/batch_norm_ptx.h", "interpose/digest_ptx.h"),
        "sessions": ("device", "hooks", SESSION),
        "kernels": ("sessions", "hooks", "runtime/processes/kernel_reader.h"),
        "calls": ("sessions", "callsites", "hooks", SESSION),
        "cublas": ("calls", "hooks"),
        "cudnn": ("calls", "kernels", "sessions", "hooks"),
        "nccl": ("calls", "sessions", "hooks", "softgpu/include/nccl.h", SESSION),
        "driver": ("cudnn", "calls", "kernels", "sessions", "hooks", SESSION),
        "process": ("driver", "cudnn", "kernels", "sessions", "callsites", "hooks"),
        "spec": ("driver", "cudnn", "cublas", "calls", "sessions", "hooks"),
    }),
    "softgpu": (SHARED, [*CUDA]),
    **rooms("softgpu/driver", SHARED, ["fmt/", "nlohmann/", "lz4.h", "zstd.h", *CUDA], {
        "terms": (),
        "model": ("terms",),
        "space": ("terms",),
        "code": ("model", "space"),
        "checks": ("space", "terms"),
        "order": ("checks", "model", "terms"),
        "memory": ("order", "checks", "code", "space", "model", "terms"),
        "machine": ("memory", "order", "checks", "code", "space", "model", "terms"),
        "api": ("machine", "order", "code", "terms"),
    }),
    **library("cudart"),
    **rooms("softgpu/cudnn", [*KERNELS, *SHARED], ["oneapi/dnnl/", *CUDA], {
        "elements": (),
        "descriptors": ("elements",),
        "ops": ("descriptors", "elements"),
        "normalization": ("descriptors", "elements"),
        "convolution": ("ops", "descriptors", "elements"),
        "backend": ("convolution", "descriptors", "elements"),
        "library": ("backend", "convolution", "normalization", "ops", "descriptors"),
    }),
    **library("cublas", *KERNELS, foreign=["cblas.h"]),
    **library("nccl", *KERNELS, "softgpu/include/"),
    **library("cupti", "softgpu/driver/api/proc_table.def", foreign=["cupti.h"]),
    **library("kernels"),
    "tools": (["tools/", "core/", "tracker/", "policy/", "runtime/script/", "softgpu/device_options.h", "softgpu/driver/code/elf_file.h",
               "softgpu/driver/code/fatbin.h"],
              ["fmt/", "nlohmann/", "CLI/", "zstd.h"]),
    "examples": (["examples/"], ["fmt/", "nlohmann/", "CLI/", "zlib.h", *CUDA]),
}
# Folders that consist of rooms.
HOUSES = {folder.rpartition("/")[0] for folder in LAYERS} - set(LAYERS)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# What the C and C++ libraries and the kernel bring: no slash and no suffix, or one of these.
SYSTEM = re.compile(r"^([a-z_0-9]+|(sys|linux|arpa|netinet)/[a-z_]+\.h|"
                    r"(cxxabi|dlfcn|elf|errno|execinfo|fcntl|link|poll|pthread|pwd|sched|semaphore|signal|spawn|stdio|stdlib|string|time|unistd|"
                    r"ucontext|xmmintrin|immintrin)\.h)$")


def rule_of(folder):
    """That of the folder itself or of the nearest one around it; None where a folder has rooms and this is none of them."""
    while folder and folder not in LAYERS:
        if folder in HOUSES:
            return None
        folder = folder.rpartition("/")[0]
    return folder or None


def violations(root):
    for top in sorted({folder.split("/")[0] for folder in LAYERS}):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in {".h", ".cpp", ".cc", ".inc"}:
                continue
            folder = rule_of(str(path.parent.relative_to(root)))
            if folder is None:
                yield f"{path.relative_to(root)}: no rule: it lies in none of the rooms of its folder"
                continue
            own, foreign = LAYERS[folder]
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = INCLUDE.match(line)
                if not found:
                    continue
                kind, target = found.groups()
                if kind == '"':
                    beside = (path.parent / target).exists() and "/" not in target
                    good = beside or any(target == o or (o.endswith("/") and target.startswith(o)) for o in own)
                else:
                    good = SYSTEM.match(target) or any(target.startswith(f) for f in foreign)
                if not good:
                    yield f"{path.relative_to(root)}:{number}: {folder}/ may not include {target}"


def main():
    root = pathlib.Path(sys.argv[1])
    files = {p for f in LAYERS for p in (root / f).rglob("*.cpp")}
    if len(files) < 20:
        sys.exit(f"layers: only {len(files)} files found under {root}: is this the source root?")
    found = list(violations(root))
    print("\n".join(found) or f"layers: {len(files)} files keep the rule")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
