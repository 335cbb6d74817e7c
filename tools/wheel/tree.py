#!/usr/bin/python3
"""Makes what a wheel carries: tree.py BUILD_FOLDER DESTINATION

DESTINATION/pooch goes where programs are, and DESTINATION/lib beside that folder: the bundle without its tests, and with
the trainer out of the PATH. DESTINATION/platform is the platform that it needs, as wheels name it.
"""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from bundle import Bundle  # noqa: E402


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    build, destination = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    for folder in ("bin", "lib"):
        shutil.rmtree(destination / folder, ignore_errors=True)
    tree = Bundle(build, destination)
    tree.place_pooch()
    tree.place_trainer("lib/pooch/examples", "lib/pooch/examples/data")
    tree.place_others()
    tree.make_relocatable()
    (major, minor), _ = tree.newest_glibc()
    (destination / "platform").write_text(f"manylinux_{major}_{minor}_x86_64\n", encoding="ascii")
    (destination / "bin/pooch").replace(destination / "pooch")
    (destination / "bin").rmdir()


if __name__ == "__main__":
    main()
