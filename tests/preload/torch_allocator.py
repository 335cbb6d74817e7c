"""The allocator that PyTorch is asked to use, where it could be loaded and nobody chose one.

usage: torch_allocator.py LIBPOOCH [TEST]...
"""
import os
import subprocess
import sys
import unittest

LIBPOOCH = os.path.abspath(sys.argv[1])
PRELOAD = f"{os.environ.get('HOOKS_PRELOAD_FIRST', '')} {LIBPOOCH}".strip()
SHOW = "import os; print({k: v for k, v in os.environ.items() if k.startswith('PYTORCH_')})"


class TorchAllocator(unittest.TestCase):
    def chosen(self, *command, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTORCH_", "POOCH_", "LD_"))}
        environment.update(variables, LD_PRELOAD=PRELOAD)
        done = subprocess.run(command or [sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_python_gets_the_stream_ordered_one(self):
        self.assertEqual(self.chosen(), "{'PYTORCH_ALLOC_CONF': 'backend:cudaMallocAsync'}\n")

    def test_what_the_user_chose_stays_even_where_it_is_no_backend(self):
        for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            for value in ("backend:native", "max_split_size_mb:64", ""):
                with self.subTest(variable=variable, value=value):
                    self.assertEqual(self.chosen(**{variable: value}), f"{ {variable: value} }\n")

    def test_pytorchs_own_graphs_keep_the_allocator_that_they_need(self):
        self.assertEqual(self.chosen(TORCHINDUCTOR_CUDAGRAPHS="1"), "{}\n")
        for words in (["--mode=reduce-overhead"], ["--torch_compile_mode", "reduce-overhead"]):
            self.assertEqual(self.chosen(sys.executable, "-c", SHOW, *words), "{}\n")
        for words in (["--mode=default"], ["reduce-overhead-of-something"]):
            self.assertNotEqual(self.chosen(sys.executable, "-c", SHOW, *words), "{}\n")

    def test_programs_that_load_no_torch_see_nothing(self):
        shown = self.chosen("/bin/sh", "-c", "env")
        self.assertNotIn("PYTORCH_", shown)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
