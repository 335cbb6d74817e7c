#!/usr/bin/python3
"""Takes the CUDA headers out of NVIDIA's wheels: cuda_headers.py FOLDER makes FOLDER/include.

Only headers are kept. The versions belong to CUDA 13.0."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

WHEELS = [
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-cupti==13.0.85",
    "nvidia-cuda-profiler-api==13.0.85",
    "nvidia-nvtx==13.0.85",
    "nvidia-cublas==13.1.0.3",
    "nvidia-cudnn-cu13==9.19.0.56",
]


def take_headers(wheel, include):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            # nvidia/cu13/include/cuda.h, nvidia/cudnn/include/cudnn.h
            parts = pathlib.PurePosixPath(name).parts
            if name.endswith("/") or len(parts) < 4 or parts[0] != "nvidia" or parts[2] != "include":
                continue
            target = include.joinpath(*parts[3:])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))


def main():
    folder = pathlib.Path(sys.argv[1])
    unfinished = folder.with_name(folder.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    for wheel in WHEELS:
        with tempfile.TemporaryDirectory() as downloads:
            print(f"headers of {wheel}", flush=True)
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
                   "--only-binary=:all:", "--dest", downloads, wheel]
            if subprocess.run(pip, check=False).returncode != 0:
                sys.exit(f"cuda_headers: pip could not download {wheel}; an installed toolkit serves too (CUDA_HOME)")
            for path in pathlib.Path(downloads).glob("*.whl"):
                take_headers(path, unfinished / "include")
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


if __name__ == "__main__":
    main()
