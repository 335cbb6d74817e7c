"""Iterations and phases are found in every loop that people write, by the end of the third iteration."""
import json
import pathlib
import tempfile
import unittest

import runs

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DEVICE = "soft:v100-nvlink2:timing"
RESNET = ["--network", "resnet50", "--input-size", "64", "--batch", "32"]


def watch(arguments, *options):
    """The trainer's own list of passes, and pooch's profile and summary."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "passes"
        done = runs.run(DEVICE, [runs.TRAIN, *arguments, "--iteration-log", log], *options,
                        env={"POOCH_REPORT": folder})
        if done.status != 0:
            raise AssertionError(done.err)
        passes = log.read_text().splitlines()
        profile = json.loads((pathlib.Path(folder) / "profile.json").read_text())
    return passes, profile, done


def seen(profile):
    """How often each kind of phase was seen."""
    counts = {}
    for phase in profile["phases"]:
        counts[phase["kind"]] = counts.get(phase["kind"], 0) + phase["seen"]
    return counts


class Iterations(unittest.TestCase):
    def expect(self, arguments, warm_up, *options, **kinds):
        """All passes but the first `warm_up` are iterations of pooch's, of the right kinds."""
        passes, profile, _ = watch(arguments, *options)
        counts = seen(profile)
        told = {kind: sum(line.split()[0] == kind for line in passes) for kind in ("train", "accumulate", "validate")}
        self.assertLessEqual(len(passes) - profile["iterations"], warm_up, f"{passes} {counts}")
        self.assertLessEqual(profile["iterations"], len(passes))
        for kind, phases in kinds.items():
            self.assertEqual(sum(p["kind"] == kind for p in profile["phases"]), phases, f"phases of {kind}: {counts}")
            self.assertLessEqual(abs(told[kind] - counts[kind]), warm_up, kind)
        return profile

    def test_plain_loop(self):
        self.expect([*RESNET, "--iterations", 8], 1, train=1)

    def test_three_iterations_are_enough(self):
        profile = self.expect([*RESNET, "--iterations", 3], 1, train=1)
        self.assertGreaterEqual(profile["iterations"], 2)

    def test_algorithm_trials_first(self):
        self.expect([*RESNET, "--iterations", 8, "--benchmark-algorithms"], 2, train=1)

    def test_accumulation_over_four_passes(self):
        self.expect([*RESNET, "--iterations", 6, "--accumulate", 4], 3, train=1)

    def test_validation_every_five(self):
        self.expect([*RESNET, "--iterations", 16, "--validate-every", 5], 2, train=1, validate=1)

    def test_smaller_last_batch(self):
        profile = self.expect([*RESNET, "--iterations", 12, "--epoch-length", 4, "--last-batch", 20], 2)
        self.assertEqual({p["kind"] for p in profile["phases"]}, {"train"})
        self.assertEqual(len([p for p in profile["phases"] if p["seen"] >= 2]), 2)

    def test_two_networks_in_turn(self):
        profile = self.expect([*RESNET, "--iterations", 12, "--alternate", "googlenet"], 3, train=2)
        self.assertGreaterEqual(min(p["seen"] for p in profile["phases"]), 4)

    def test_everything_at_once_under_a_cap(self):
        self.expect([*RESNET, "--iterations", 16, "--accumulate", 2, "--validate-every", 5, "--epoch-length", 4,
                     "--last-batch", 20], 8, "--memory", "600MiB")

    def test_input_on_another_stream_and_synchronous_allocation(self):
        self.expect([*RESNET, "--iterations", 8, "--alloc", "sync"], 1, train=1)

    def test_a_program_without_a_loop_has_no_iterations(self):
        _, profile, done = watch([*RESNET, "--iterations", 1], "--log", "info")
        self.assertEqual(profile["iterations"], 0)
        self.assertTrue(any("do not repeat themselves" in line for line in done.pooch_lines()), done.err)


class Times(unittest.TestCase):
    """What is measured is what the model says."""

    def profile(self, *arguments, timer="automatic"):
        with tempfile.TemporaryDirectory() as folder:
            done = runs.run(DEVICE + runs.STEADY, [runs.TRAIN, "--iterations", 6, *arguments],
                            env={"POOCH_REPORT": folder, "POOCH_TIMER": timer})
            self.assertEqual(done.status, 0, done.err)
            return json.loads((pathlib.Path(folder) / "profile.json").read_text())

    def test_cupti_and_events_agree(self):
        network = ["--network", "resnet50", "--batch", "64"]
        both = [self.profile(*network, timer=timer) for timer in ("cupti", "events")]
        self.assertEqual([p["timer"] for p in both], ["cupti", "events"])
        mine, theirs = (p["phases"][0] for p in both)
        self.assertEqual(len(mine["ops"]), len(theirs["ops"]))
        self.assertGreater(min(mine["measured"], theirs["measured"]), 0)
        for a, b in zip(mine["ops"], theirs["ops"]):
            if a["us"] >= 50:
                self.assertAlmostEqual(a["us"], b["us"], delta=0.02 * a["us"])
        self.assertAlmostEqual(mine["iteration_us"], theirs["iteration_us"], delta=0.02 * mine["iteration_us"])

    def test_equal_the_models_to_the_microsecond(self):
        # In-place ReLU reads and writes every byte once: bytes over the model's bandwidth.
        phase = self.profile("--network", "vgg16", "--batch", "16", timer="cupti")["phases"][0]
        model = json.loads((SOURCE / "softgpu/models/v100-nvlink2.json").read_text())
        checked = 0
        for op in phase["ops"]:
            if op["kind"] != "activation_forward":
                continue
            size = 4
            for length in op["shape"]["sizes"]:
                size *= length
            self.assertAlmostEqual(op["us"], kernel_us(model, "activation_fwd", 2 * size), delta=1.0)
            checked += 1
        self.assertGreaterEqual(checked, 15)

    def test_measuring_costs_little_virtual_time(self):
        # Of five iterations the last three are timed, so the median is one of those.
        network = ["--network", "resnet50", "--batch", "64", "--iterations", 5]
        def run(*options, timer="automatic"):
            done = runs.run(DEVICE + runs.STEADY, [runs.TRAIN, *network, "--json"], *options, env={"POOCH_TIMER": timer})
            self.assertEqual(done.status, 0, done.err)
            return json.loads(done.out)["ms_per_iteration"]

        plain = run("--no-pooch")
        for timer in ("cupti", "events"):
            self.assertLessEqual(run(timer=timer), plain * 1.05, timer)

    def test_the_link_is_measured_each_way_by_size(self):
        model = json.loads((SOURCE / "softgpu/models/v100-nvlink2.json").read_text())["link"]
        samples = self.profile("--network", "vgg16", "--batch", "16")["link"]
        for direction, rate in (("device", model["to_device"]), ("host", model["to_host"])):
            alone = [s for s in samples if s["to"] == direction and not s.get("both_ways", False)]
            self.assertGreaterEqual(len(alone), 3)
            for sample in alone:
                expected = model["latency_ns"] / 1000 + sample["bytes"] / rate * 1e6
                self.assertAlmostEqual(sample["us"], expected, delta=1.0)

    def test_events_tell_the_times_where_cupti_lacks_many(self):
        network = ["--network", "resnet50", "--batch", "64", "--iterations", 12]
        profiles = []
        for ids, timer in (("on", "cupti"), ("off", "events")):
            with tempfile.TemporaryDirectory() as folder:
                done = runs.run(DEVICE + runs.STEADY, [runs.TRAIN, *network], env={"POOCH_REPORT": folder, "SOFTGPU_CUPTI_IDS": ids})
                self.assertEqual(done.status, 0, done.err)
                profiles.append(json.loads((pathlib.Path(folder) / "profile.json").read_text()))
            self.assertEqual(profiles[-1]["timer"], timer)
        for a, b in zip(*(profile["phases"][0]["ops"] for profile in profiles)):
            if a["us"] >= 50:
                self.assertAlmostEqual(a["us"], b["us"], delta=0.02 * a["us"])

    def test_a_run_that_ends_while_it_is_timed_ends_well(self):
        with tempfile.TemporaryDirectory() as folder:
            done = runs.run(DEVICE + runs.STEADY, [runs.TRAIN, "--network", "resnet50", "--batch", "64", "--iterations", 2],
                            env={"POOCH_REPORT": folder, "POOCH_TIMER": "cupti", "POOCH_LOG": "info"})
            self.assertEqual(done.status, 0, done.err)
            self.assertIn("times of ops come from CUPTI", done.err)
            self.assertIsNotNone(done.summary)

    def test_nothing_is_timed_where_nobody_shall(self):
        profile = self.profile("--network", "resnet50", "--batch", "64", timer="none")
        self.assertEqual((profile.get("timer", ""), profile["phases"][0].get("measured", 0)), ("", 0))

    def test_nothing_is_left_running(self):
        # A long run costs as much virtual time per iteration as a run without a timer, after the first ones. The
        # images are so small that every nanosecond of the host shows.
        network = ["--network", "googlenet", "--batch", "1", "--input-size", "64", "--iterations", 20]
        times = {}
        for timer in ("none", "cupti", "events"):
            done = runs.run(DEVICE + runs.STEADY, [runs.TRAIN, *network, "--json"], env={"POOCH_TIMER": timer})
            self.assertEqual(done.status, 0, done.err)
            times[timer] = json.loads(done.out)["ms_per_iteration"]
        self.assertEqual(times["cupti"], times["none"])
        self.assertEqual(times["events"], times["none"])


def kernel_us(model, kind, bytes_moved):
    """The model's duration of a kernel that only moves memory, in microseconds."""
    return model["launch_gap_ns"] / 1000 + bytes_moved / model["bytes_per_s"][kind] * 1e6


if __name__ == "__main__":
    unittest.main(argv=["iterations"], verbosity=2)
