"""A user's own settings for PyTorch's allocator cost planning: said once, where memory is short.

usage: torch_settings.py BUILD_FOLDER PROGRAM LIBRARY_NAMED_LIKE_PYTORCHS [TEST]...
"""
import pathlib
import sys
import unittest

from runs import run

PROGRAM = pathlib.Path(sys.argv[2]).resolve()
TORCH = pathlib.Path(sys.argv[3]).resolve()
DEVICE = "soft:v100-pcie3:compute:memory=512MiB"
CURE = "and pooch chooses backend:cudaMallocAsync"


class TorchSettings(unittest.TestCase):
    def said(self, scenario, cap=64, torch=TORCH, **variables):
        done = run(DEVICE, [PROGRAM, scenario], "--memory", f"{cap}MiB", env=variables, ahead=torch)
        self.assertEqual((done.status, done.out.splitlines()[-1:]), (0, ["done"]), done.err)
        return [line for line in done.err.splitlines() if line.startswith("pooch: warning")]

    def test_one_line_names_the_variable_and_the_cure(self):
        for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            for value in ("backend:native", "max_split_size_mb:64"):
                with self.subTest(variable=variable, value=value):
                    self.assertEqual(self.said("segments", **{variable: value}), [
                        f"pooch: warning: {variable}={value}: PyTorch's caching allocator hides when tensors end, so dead "
                        f"memory is moved and plans are few; unset {variable}, {CURE}"])

    def test_memory_that_pytorch_maps_itself_cannot_leave(self):
        name, value = "PYTORCH_CUDA_ALLOC_CONF", "garbage_collection_threshold:0.8,expandable_segments:True"
        self.assertEqual(self.said("own_mappings", **{name: value}), [
            f"pooch: warning: {name}={value}: PyTorch maps its memory itself, so none of it can leave the device; unset "
            f"{name}, {CURE}"])

    def test_where_nothing_is_lost_nothing_is_said(self):
        self.assertEqual(self.said("segments", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync"), [])
        self.assertEqual(self.said("segments", cap=512, PYTORCH_CUDA_ALLOC_CONF="backend:native"), [], "all of it fits")
        self.assertEqual(self.said("segments"), [])
        self.assertEqual(self.said("segments", torch=None, PYTORCH_CUDA_ALLOC_CONF="backend:native"), [], "no PyTorch")

    def test_graphs_of_pytorchs_own_are_named(self):
        [line] = self.said("segments", TORCHINDUCTOR_CUDAGRAPHS="1")
        self.assertIn("TORCHINDUCTOR_CUDAGRAPHS: PyTorch keeps its caching allocator", line)
        self.assertIn("set PYTORCH_ALLOC_CONF=backend:cudaMallocAsync", line)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
