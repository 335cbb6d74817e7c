"""PyTorch's public wheel on the software GPU, without pooch and under it: nothing in the programs knows of either.

usage: pytorch.py BUILD_FOLDER SOURCE_ROOT PYTHON [TEST...]

Without the name of a test all are run. PYTHON has torch and torchvision for CUDA 13. Timing mode: what tensors hold is not computed, and the device checks that
every operand is there and that nothing races.
"""
import pathlib
import re
import sys
import tempfile
import unittest

from runs import BUILD, MIB, STEADY, TO_THE_BYTE, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import missed  # noqa: E402

SOURCE, PYTHON = pathlib.Path(sys.argv[2]), sys.argv[3]
DEVICE = "soft:h200:timing"
# For a row that misses its limit where mapping costs for each handle.
PER_CALL = DEVICE + ":vmm=percall"
GIB = MIB << 10
LEGACY = {"TORCH_CUDNN_V8_API_DISABLED": "1"}  # convolutions by cuDNN's older API
ASK = """
import torch
assert torch.cuda.is_available() and torch.cuda.device_count() == 1
print(torch.cuda.get_device_name(), torch.cuda.get_device_capability())
x = torch.ones(1000, device="cuda")
assert torch.cuda.memory_allocated() >= 4000
free, total = torch.cuda.mem_get_info()
assert 0 < free <= total
print(x.cpu().shape)
"""
LOADER = """
import os, torch, torch.utils.data as data
class Numbers(data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return float(i), "libpooch" in os.environ.get("LD_PRELOAD", "")
if __name__ == "__main__":
    torch.zeros(1, device="cuda")
    for batch, hooked in data.DataLoader(Numbers(), batch_size=16, num_workers=2, pin_memory=True,
                                         multiprocessing_context="{method}"):
        print(float(batch.sum()), batch.cuda(non_blocking=True).shape, bool(hooked.any()))
"""
GRAPH = """
import torch
from torch import nn
model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.ReLU()))).cuda()
optimizer, x = torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(2048, 1024, device="cuda")
def step():
    optimizer.zero_grad(set_to_none=True)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
for _ in range(5):
    x.copy_(torch.randn(2048, 1024))
    graph.replay()
print(loss.cpu().shape)
"""
WRONG = BUILD / "tests/preload/libwrong_replay.so"
FOLLOW_PLANS = {"POOCH_POLICY": "hybrid", "POOCH_WAIT_FOR_PLANS": "1"}
ALLOCATORS = [{"PYTORCH_ALLOC_CONF": f"backend:{name}"} for name in ("cudaMallocAsync", "native")]


class PyTorch(unittest.TestCase):
    def program(self, name, *options, pooch=("--no-pooch",), env=None, device=DEVICE):
        done = run(device, [PYTHON, SOURCE / "examples/pytorch" / name, *options], *pooch, env=env, timeout=400)
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.device["violations"], [])
        self.assertNotIn("not there", done.err)
        return done

    def code(self, text, *pooch, device=DEVICE, env=None):
        done = run(device, [PYTHON, "-c", text], *pooch, env=env)
        self.assertEqual((done.status, done.device["violations"]), (0, []), done.err)
        return done.out.splitlines()

    def test_the_device_is_found_with_and_without_pooch(self):
        for pooch in ((), ("--no-pooch",)):
            self.assertEqual(self.code(ASK, *pooch), ["NVIDIA H200 (9, 0)", "torch.Size([1000])"])

    def test_a_loader_with_worker_processes_feeds_the_device(self):
        for method in ("fork", "spawn"):
            for children in ("1", "0"):
                with self.subTest(f"{method}, POOCH_CHILDREN={children}"), tempfile.TemporaryDirectory() as folder:
                    program = pathlib.Path(folder) / "loader.py"  # a worker that is spawned imports it
                    program.write_text(LOADER.replace("{method}", method))
                    done = run(DEVICE, [PYTHON, program], "--memory", "1GiB", env={"POOCH_CHILDREN": children})
                    self.assertEqual((done.status, done.device["violations"]), (0, []), done.err)
                    # Without pooch are programs that start behind the first CUDA call: a spawned worker is one.
                    hooked = children == "1" or method == "fork"
                    self.assertEqual(done.out.splitlines(), [
                        f"{sum(range(start, start + 16)):.1f} torch.Size([16]) {hooked}" for start in range(0, 64, 16)])

    def test_a_step_that_was_captured_is_replayed_from_memory_that_stays(self):
        # The software GPU captures no allocations of its own pools'.
        native = {"PYTORCH_ALLOC_CONF": "backend:native"}
        device = DEVICE + TO_THE_BYTE
        for pooch in (("--no-pooch",), ("--memory", "1GiB"), ("--memory", "200MiB")):
            with self.subTest(pooch):
                self.assertEqual(self.code(GRAPH, *pooch, device=device, env=native), ["torch.Size([])"])
        done = run(device, [PYTHON, "-c", GRAPH], "--memory", "120MiB", env=native)
        self.assertIn("torch.OutOfMemoryError", done.err)
        self.assertRegex(done.err, r"pooch: error: .*cannot leave the device.*what graphs use.*the cap is 120 MiB")

    def known(self, *options, pooch=("--no-pooch",), env=None, device=DEVICE):
        """A run of which the device knows what each kernel touches: what it prints tells where its content came from."""
        done = self.program(*options, pooch=pooch, env=env, device=device)
        self.assertEqual(done.device["tokens"]["unknown"], {})
        self.assertNotIn("nan", done.out)
        return done

    def test_resnet50_runs_in_core_by_either_api_of_cudnn(self):
        for env in (None, LEGACY):
            first, again = (self.known("resnet50.py", "--batch", 32, "--iterations", 2, env=env) for _ in range(2))
            self.assertEqual((len(first.out.splitlines()), first.out), (2, again.out))
            self.assertGreater(first.device["kernels"], 2 * (53 * 3 + 53 * 2), "convolutions and batch norms alone")

    def same_under_a_third(self, *options, env=None):
        """What the program prints under a third of its need is what it prints without pooch."""
        need = self.known(*options, "--iterations", 2, pooch=(), env=env).summary["need_bytes"]
        in_core = self.known(*options, "--iterations", 10, env=env)
        done = self.known(*options, "--iterations", 10, pooch=("--memory", f"{need // 3}"), env=(env or {}) | FOLLOW_PLANS | {
            "POOCH_VERIFY": "all"})
        self.assertEqual(done.out, in_core.out)
        self.assertLessEqual(done.device["peak_bytes"], need // 3)
        self.assertEqual(done.summary["mismatches"], 0)
        return done.summary

    def test_resnet50_under_a_third_of_its_need_computes_from_the_same_content(self):
        # From PyTorch's own allocator its operations do not repeat themselves, and nothing is made again.
        asynchronous, _ = (self.same_under_a_third("resnet50.py", "--batch", 32, env=env) for env in ALLOCATORS)
        self.assertGreater(asynchronous["replays"], 100)
        self.assertGreater(asynchronous["verified"], 100)

    def test_resnet50_of_batch_640_trains_under_16_gib(self):
        done = self.program("resnet50.py", "--batch", 640, "--iterations", 4, pooch=("--memory", "16GiB"))
        self.assertGreater(done.summary["need_bytes"], 45 * GIB)
        self.assertLessEqual(done.summary["peak_device_bytes"], 16 * GIB)
        self.assertLessEqual(done.device["peak_bytes"], 16 * GIB)

    def resnet50_ns(self, iterations, *pooch, env=None):
        return self.program("resnet50.py", "--batch", 640, "--same-batch", "--iterations", iterations, pooch=pooch,
                            env=env).device["virtual_ns"]

    def test_resnet50_of_batch_640_takes_about_15_percent_longer_under_16_gib(self):
        in_core = (self.resnet50_ns(6, "--no-pooch") - self.resnet50_ns(3, "--no-pooch")) / 3
        with tempfile.TemporaryDirectory() as cache:
            # Two runs differ by iterations of one plan only where both find it in the cache.
            env = FOLLOW_PLANS | {"POOCH_CACHE": cache}
            few, more = [self.resnet50_ns(n, "--memory", "16GiB", env=env) for n in (40, 24, 36)][1:]
        ratio = round((more - few) / 12 / in_core, 3)
        if ratio > 1.15:
            self.assertLessEqual(ratio, missed.figure("pytorch: resnet50.py --batch 640", 1.15))

    def test_a_small_gpt_trains_under_a_third_of_its_need(self):
        # With a vocabulary of 50304 the loss alone has a third of it all at once.
        options = ("gpt.py", "--layers", 12, "--width", 768, "--vocabulary", 8192, "--iterations", 4)
        need = self.known(*options, pooch=()).summary["need_bytes"]
        self.assertGreater(need, 6 * GIB)
        done = self.known(*options, pooch=("--memory", f"{need // 3}"))
        self.assertEqual(done.out, self.known(*options).out)
        self.assertLessEqual(done.device["peak_bytes"], need // 3)

    def test_a_gpt_follows_a_plan_under_a_third_of_its_need_and_computes_from_the_same_content(self):
        summary = self.same_under_a_third("gpt.py", "--layers", 12, "--width", 768, "--vocabulary", 8192, "--batch", 16)
        self.assertGreaterEqual(summary["planned_iterations"], 4)
        self.assertEqual(summary["plans_left"], 0)
        self.assertGreater(summary["bytes_in"] / summary["planned_iterations"], summary["need_bytes"] / 8, "swapped")
        self.assertGreater(summary["replays"], 100)
        self.assertGreater(summary["verified"], 100)

    def test_a_wrong_replay_in_a_gpt_is_found(self):
        # Arrays for an embedding's gradient have room for each word, of which there are no whole warps here.
        options = ("gpt.py", "--layers", 8, "--width", 512, "--heads", 8, "--vocabulary", 1500, "--batch", 16, "--iterations")
        need = self.known(*options, 2, pooch=()).summary["need_bytes"]
        in_core = self.known(*options, 7).out
        spoilt = FOLLOW_PLANS | {"LD_PRELOAD": str(WRONG), "WRONG_REPLAY_OF": "cublasLtMatmul", "WRONG_REPLAY": "1"}
        done, unseen = (self.known(*options, 7, pooch=("--memory", f"{need // 3}"), env=spoilt | {"POOCH_VERIFY": how})
                        for how in ("sample", "off"))
        # What is made from a wrong one is wrong too.
        self.assertGreater(done.summary["mismatches"], 0)
        self.assertRegex(done.err, r"pooch: warning: [\w.]+, made again by cublasLtMatmul, is not what it was; its copy is put "
                                   r"back, and it is swapped from now on\n")
        self.assertGreater(done.summary["replays"], 20)
        self.assertEqual(done.out, in_core)
        self.assertEqual(unseen.summary["verified"], 0)
        self.assertNotEqual(unseen.out, in_core, "the fault is one")

    def test_a_gpt_keeps_its_addresses_on_their_memory_under_half_of_its_need(self):
        # The last iteration's logits are there until the next ones are made, beside the layout and at another address.
        options = ("gpt.py", "--layers", 12, "--width", 768, "--vocabulary", 8192, "--batch", 16, "--iterations")
        need = self.program(*options, 2, pooch=()).summary["need_bytes"]
        done = self.known(*options, 20, pooch=("--memory", f"{need // 2}"), device=DEVICE + STEADY,
                          env=FOLLOW_PLANS | {"POOCH_LOG": "info"})
        self.assertEqual(done.out, self.known(*options, 20).out)
        self.assertIn("alias mode: ", done.err)
        self.assertNotIn("alias mode ends", done.err)
        room = float(re.search(r"layout: .* of ([\d.]+) GiB", done.err)[1])
        self.assertLess(need / 2 / GIB - room, 1.1, "0.5 GiB each: the old or the new ones, and what is made from them")
        self.assertLessEqual(done.summary["actual_ms"], 1.03 * done.summary["predicted_ms"])

    def in_half_precision(self, device, memory, *options, env=None):
        """A run that follows plans under so much memory, what it prints compared with one without pooch."""
        command = [PYTHON, SOURCE / "tests/gpu/torch_example.py", "--bf16", SOURCE / "examples/pytorch" / options[0], *options[1:]]
        in_core, done = (run(device, command, *pooch, env=FOLLOW_PLANS | (env or {}))
                         for pooch in (("--no-pooch",), ("--memory", memory)))
        for each in (in_core, done):
            self.assertEqual((each.status, each.device["violations"]), (0, []), each.err)
            self.assertEqual(each.device["tokens"]["unknown"], {})
        losses = re.findall(r"(?m)^iteration.*", done.out)
        self.assertGreater(len(losses), 9)
        self.assertEqual(losses, re.findall(r"(?m)^iteration.*", in_core.out))
        self.assertEqual(done.summary["mismatches"], 0)
        self.assertGreater(done.summary["verified"], 100)
        return done

    def test_resnet50_in_half_precision_and_channels_last_is_mostly_made_again(self):
        # PyTorch's own kernels normalise there, behind which nothing could be dropped as long as they may read what they write.
        done = self.in_half_precision(PER_CALL, "16GiB", "resnet50.py", "--channels-last", "--same-batch", "--batch", 1280,
                                      "--iterations", 12, env={"POOCH_LOG": "info"})
        in_core = float(re.search(r"ms predicted, ([\d.]+) ms in core", done.err)[1])
        most = missed.figure("pytorch: resnet50.py --bf16 --channels-last --batch 1280", 1.15)
        self.assertLessEqual(round(done.summary["predicted_ms"] / in_core, 3), most, "without, the link bounds it at 2.27")

    def test_replays_of_a_gpt_in_half_precision_find_what_autocast_has_freed(self):
        # Autocast frees its copies of weights and biases behind forward; attention is cuDNN's here.
        done = self.in_half_precision(DEVICE, "3GiB", "gpt.py", "--layers", 4, "--width", 1024, "--heads", 16, "--batch", 16,
                                      "--vocabulary", 8192, "--iterations", 10, env={"POOCH_VERIFY": "all"})
        self.assertGreaterEqual(done.summary["planned_iterations"], 6)
        self.assertGreater(done.summary["replays"], 100)
        self.assertEqual(done.summary["plans_left"], 0)

    def mlp(self, iterations, *pooch, env=None):
        done = run(DEVICE, [PYTHON, SOURCE / "tests/bench/torch_mlp.py", iterations], *pooch,
                   env={"POOCH_POLICY": ""} | (env or {}))
        self.assertEqual((done.status, done.device["violations"]), (0, []), done.err)
        return done

    def test_launches_are_hardly_slower_where_everything_fits(self):
        for env in ALLOCATORS:
            plain, ours = (float(self.mlp(150, *pooch, env=env).out.split()[0]) for pooch in (("--no-pooch",), ()))
            self.assertLessEqual(ours / plain, 1.03, env)

    def test_where_everything_fits_no_call_is_watched(self):
        for env in ALLOCATORS:
            self.assertEqual(self.mlp(60, env=env).summary["ops"], 0)

    def test_resnet50_is_hardly_slower_where_everything_fits(self):
        # Kernels that the software GPU does not know cost time by bytes up to the end of their memory, which pooch
        # rounds up to 2 MiB: nothing to speak of where maps are large.
        took = []
        for pooch in (("--no-pooch",), ()):
            few, more = (self.program("resnet50.py", "--batch", 512, "--iterations", n, pooch=pooch,
                                      env=ALLOCATORS[0] | {"POOCH_POLICY": ""})
                         for n in (3, 6))
            took.append(more.device["virtual_ns"] - few.device["virtual_ns"])
        self.assertLessEqual(took[1] / took[0], 1.01)

    def test_a_small_gpt_trains_from_the_native_allocator(self):
        options = ("gpt.py", "--layers", 4, "--batch", 2, "--iterations", 3, "--optimizer", "sgd")
        done, in_core = (self.known(*options, pooch=pooch, env=ALLOCATORS[1])
                         for pooch in (("--memory", "2GiB"), ("--no-pooch",)))
        self.assertEqual(done.out, in_core.out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + [f"PyTorch.{name}" for name in sys.argv[4:]])
