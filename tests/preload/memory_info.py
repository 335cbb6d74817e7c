"""Programs that ask how much memory there is and take it: they decide as they would on a device of the cap's size.

usage: memory_info.py BUILD_FOLDER PROGRAM [TEST]...
"""
import pathlib
import sys
import unittest

from runs import MIB, TO_THE_BYTE, run

PROGRAM = pathlib.Path(sys.argv[2]).resolve()
CAP, HOST = 64, 512
SMALL = f"soft:v100-pcie3:compute:memory={CAP}MiB"
LARGE = "soft:v100-pcie3:compute:memory=1GiB"


class MemoryInfo(unittest.TestCase):
    def plain(self, scenario):
        done = run(SMALL, [PROGRAM, scenario], "--no-pooch")
        self.assertEqual(done.status, 0, done.err)
        return done.out

    @staticmethod
    def complaints(done):
        return [line for line in done.pooch_lines() if line.startswith(("pooch: warning:", "pooch: error:"))]

    def capped(self, scenario, device=LARGE, cap=CAP, **settings):
        done = run(device, [PROGRAM, scenario], "--memory", f"{cap}MiB", "--host-memory", f"{HOST}MiB", env=settings)
        self.assertEqual((done.status, done.out.splitlines()[-1:]), (0, ["done"]), done.err)
        self.assertEqual(done.device["violations"], [])
        self.assertLessEqual(done.summary["peak_device_bytes"], cap * MIB)
        return done

    def check_like_a_device(self, scenario):
        for policy in ("demand", ""):
            with self.subTest(policy):
                done = self.capped(scenario, POOCH_POLICY=policy)
                self.assertEqual(done.out, self.plain(scenario))
                self.assertEqual(done.summary["evictions"], 0, "all of it fits")
                self.assertEqual(self.complaints(done), [])

    def test_engines_are_chosen_from_the_same_as_without_pooch(self):
        self.check_like_a_device("benchmark")

    def test_beyond_the_cap_a_workspace_is_still_to_be_had(self):
        done = self.capped("benchmark_beyond")
        self.assertIn(f"at least {CAP // 16} MiB", done.out)
        self.assertGreater(done.summary["evictions"], 0)

    def test_a_map_of_layers_fills_the_device_and_no_more(self):
        self.check_like_a_device("device_map")

    def test_a_batch_made_for_what_is_free_fits(self):
        self.check_like_a_device("batch_from_free")

    def test_a_batch_found_by_trial_is_granted_beyond_the_cap_and_works(self):
        done = self.capped("batch_by_trial", LARGE + TO_THE_BYTE)
        batch = int(done.out.split()[1])
        self.assertGreater(batch, 8, "what fits the cap")
        self.assertLessEqual(batch, CAP, "no single tensor is larger than the cap")
        self.assertLessEqual(len(self.complaints(done)), 1, done.err)
        kept = self.capped("batch_by_trial", LARGE + TO_THE_BYTE, POOCH_POLICY="keep")
        self.assertEqual(kept.out, self.plain("batch_by_trial"), "who wants no more than the device")

    def test_what_is_taken_ahead_of_use_fits(self):
        self.check_like_a_device("preallocate")

    def test_a_device_has_one_size(self):
        self.assertEqual(self.capped("totals").out, f"{CAP} MiB, all but 0 free\ndone\n")
        whole = run(LARGE, [PROGRAM, "totals"])
        self.assertEqual(whole.status, 0, whole.err)
        plain = run(LARGE, [PROGRAM, "totals"], "--no-pooch")
        self.assertEqual(whole.out.split(",")[0], plain.out.split(",")[0], "where no cap is named")

    def test_all_that_is_granted_is_told_to_who_asks_for_that(self):
        done = self.capped("device_map", POOCH_MEMORY_INFO="all")
        self.assertIn("24 layers", done.out)
        done = self.capped("preallocate", POOCH_MEMORY_INFO="all")
        self.assertGreater(int(done.out.split()[0]), 75, "one allocation may exceed the cap")
        self.capped("totals", POOCH_MEMORY_INFO="all")
        wrong = run(LARGE, [PROGRAM, "totals"], env={"POOCH_MEMORY_INFO": "some"})
        self.assertEqual(wrong.status, 2)
        self.assertEqual(wrong.pooch_lines(), ["pooch: error: POOCH_MEMORY_INFO: 'some': accepted are device, all"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
