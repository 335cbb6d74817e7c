"""Kernels of PyTorch's that not every program launches, and those that torch.compile makes, on the software GPU.

usage: pytorch_kernels.py BUILD_FOLDER SOURCE_ROOT PYTHON [TEST]...

PYTHON has torch and torchvision for CUDA 13, and Triton. The device knows what each of PyTorch's own kernels touches, so
that what a program prints tells where its content came from. Nobody knows it of those that Triton makes.
"""
import pathlib
import sys
import tempfile
import unittest

from runs import run

SOURCE, PYTHON = pathlib.Path(sys.argv[2]), sys.argv[3]
DEVICE = "soft:h200:timing"
GPT = ("gpt.py", "--layers", 2, "--width", 256, "--heads", 4, "--sequence", 256, "--vocabulary", 1024, "--batch", 4,
       "--iterations", 3)

# Trains one after the other, each with the options of one argument: a process of its own would take longer to start.
GPTS = f"""
import sys
sys.path.insert(0, {str(SOURCE / "examples/pytorch")!r})
import gpt
for options in sys.argv[1:]:
    sys.argv = ["gpt.py", *options.split()]
    gpt.main()
"""

# Without a mask cuDNN's frontend makes one operation of it, else several.
CUDNN_ATTENTION = """
import time
import torch
from torch.nn import attention, functional
for length in (7, 100, 129, 256):
    q, k, v = (torch.randn(2, 4, length, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    bias = torch.zeros(2, 1, length, length, device="cuda", dtype=torch.bfloat16)
    with attention.sdpa_kernel(attention.SDPBackend.CUDNN_ATTENTION):
        for how in ({}, {"is_causal": True}, {"attn_mask": bias}):
            functional.scaled_dot_product_attention(q, k, v, **how).sum().backward()
            print(length, q.grad.shape)
time.sleep(0.1)  # autograd's thread may hold the last step yet; PyTorch aborts where the interpreter ends before it lets go
"""


class Kernels(unittest.TestCase):
    def program(self, *options, pooch=("--no-pooch",), env=None):
        done = run(DEVICE, [PYTHON, SOURCE / "examples/pytorch" / options[0], *options[1:]], *pooch, env=env, timeout=600)
        self.assertEqual((done.status, done.device["violations"]), (0, []), done.err)
        self.assertNotIn("not there", done.err)
        return done

    def known(self, *of_each):
        options = [" ".join(map(str, GPT[1:])) + " " + each for each in of_each]
        done, again = (run(DEVICE, [PYTHON, "-c", GPTS, *options], "--no-pooch") for _ in range(2))
        for each in (done, again):
            self.assertEqual((each.status, each.device["violations"], each.device["tokens"]["unknown"]), (0, [], {}), each.err)
            self.assertNotIn("not there", each.err)
        self.assertEqual(len(done.out.splitlines()), 3 * len(options))
        self.assertNotIn("nan", done.out)
        self.assertEqual(done.out, again.out)

    def test_optimizers_of_every_kind_are_known(self):
        self.known("--optimizer adamw --clip", "--optimizer adamw --half", "--optimizer adamw-plain --half --clip",
                   "--optimizer adamw-fused", "--optimizer adamw-fused --half --clip", "--optimizer sgd --clip")

    def test_attention_of_every_kind_is_known(self):
        self.known("--attention efficient", "--attention flash --amp", "--attention cudnn --amp")

    def test_cudnn_has_attention_of_every_form_for_sequences_of_any_length(self):
        done = run(DEVICE, [PYTHON, "-c", CUDNN_ATTENTION], "--no-pooch")
        self.assertEqual((done.status, done.device["violations"]), (0, []), done.err)
        self.assertEqual(len(done.out.splitlines()), 12)

    def compiled(self, iterations, *options):
        """With and without pooch; what was compiled once is there the second time."""
        with tempfile.TemporaryDirectory() as cache:
            env = {"TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": f"{cache}/triton"}
            for pooch in (("--no-pooch",), ("--memory", "8GiB")):
                done = self.program(*options, "--iterations", iterations, "--compile", pooch=pooch, env=env)
                self.assertEqual(len(done.out.splitlines()), iterations)
                self.assertTrue(any(name.startswith("triton_") for name in done.device["tokens"]["unknown"]))

    def test_a_compiled_gpt_trains(self):
        self.compiled(3, *GPT)

    def test_a_compiled_resnet50_trains(self):
        self.compiled(2, "resnet50.py", "--batch", 8)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
