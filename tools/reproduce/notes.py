"""Prose of the document: what the numbers are, and why they differ from the published ones."""
import published

HEAD = f"""# The published experiments, on the software GPU

Made by `./dev reproduce`, from commands that stand below each table; the raw results are in `build/reproduce/`.

**These are times of a model, not measurements.** The software GPU keeps virtual time from rates per kind of op
(`softgpu/models/*.json`), and `pooch simulate` plans from a profile of the program that ran on it. "In-core" is the same
program with memory enough. No GPU took part; the published numbers were measured on GPUs, with other programs. What can be
compared is which policy wins, by how much, and where memory ends.

* Overhead is extra time over in-core: +62 % time is −38 % throughput.
* Each number is for the better of the two ways to carry a plan out, remap and alias.
* The cap is the memory named, 16 GiB or 12 GiB; on a real device its context and other programs take some of it.
* "Figure only": the publication draws the number and does not write it.
* The network is the trainer's own ([examples](../examples)); it works in place where ReLU and addition allow it, as the
  published programs do.

Sources:

* {published.POOCH}
* {published.VDNN}
* {published.CHAINER}
* {published.LMS}"""

NOTES = {}
