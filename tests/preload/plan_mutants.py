"""Plans with something wrong in them under POOCH_PLAN, through the whole library: each is refused in one line, which ends
the program before it has begun, or left aside in one line, or carried out; what is trained is the same.

10,000 mutants of plans run without the preload, in tests/unit/runtime/plan_mutants.cpp; here is a sample.

usage: plan_mutants.py BUILD_FOLDER [MUTANTS [SEED]]
"""
import concurrent.futures
import copy
import json
import os
import pathlib
import random
import sys
import tempfile
import unittest

from runs import DIGITS, run

DEVICE = "soft:v100-pcie3:compute"
COMMAND = [*DIGITS, "--iterations", "7"]
CAPS = {"hybrid": "36MiB", "superneurons": "70MiB", "swap-all": "36MiB"}
MUTANTS = int(sys.argv[2]) if len(sys.argv) > 2 else 40
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1


def spoil(dice, plan):
    """One change of structure; the text, where it is none that a document can hold."""
    half = dice.choice(("before", "after"))
    position = dice.choice(list(plan[half]))
    actions = plan[half][position]
    kind = dice.randrange(9)
    if kind == 0:  # to another place
        action = actions.pop(dice.randrange(len(actions)))
        if not actions:
            del plan[half][position]
        place = dice.choice(("before", "after"))
        plan[place].setdefault(str(dice.randrange(60)), []).append(action)
    elif kind == 1:
        actions.insert(0, dice.choice(actions))
    elif kind == 2:
        del plan[half][position]
    elif kind == 3:
        dice.shuffle(actions)
        actions.reverse()
    elif kind == 4:
        actions[-1] = f"{dice.choice(('evict', 'drop', 'replay', 'prefetch'))} {dice.choice((0, 1, 7, 40, 4294967295))}"
    elif kind == 5:
        one = dice.choice(plan["maps"])
        one[dice.choice(list(one))] = dice.choice((-1, 0, 1, 2**64, "keep", "swap", "a\nb\x1b[31m", None, [], {}))
    elif kind == 6:
        made_again = [one for one in plan["maps"] if one.get("by")] or plan["maps"]
        dice.choice(made_again).setdefault("by", []).append(dice.randrange(60))
    elif kind == 7:
        plan[half][str(int(position) + dice.choice((-2, -1, 1, 2)))] = plan[half].pop(position)
    else:
        return json.dumps(plan).replace('"phase"', '"cap": ' + "[" * 100_000 + ', "phase"', 1)
    return json.dumps(plan)


class PlanMutants(unittest.TestCase):
    def test_each_is_refused_in_one_line_or_carried_out_with_the_same_bits(self):
        in_core = run(DEVICE, COMMAND, "--no-pooch")
        plans = []
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for policy, cap in CAPS.items():
                env = {"POOCH_WAIT_FOR_PLANS": "1", "POOCH_CACHE": str(root / policy)}
                done = run(DEVICE, COMMAND, "--policy", policy, "--memory", cap, env=env)
                self.assertEqual(done.losses, in_core.losses, done.err)
                for entry in (root / policy).glob("*.json"):
                    plan = json.loads(entry.read_text(encoding="utf-8"))
                    del plan["made_for"]
                    plans.append((plan, cap))
            self.assertTrue(plans)
            followed = refused = 0
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                for what, done in pool.map(lambda n: self.mutant(root, plans, n), range(MUTANTS)):
                    lines = [line for line in done.err.splitlines() if line.startswith("pooch: ")]
                    with self.subTest(mutant=what):
                        self.assertNotIn("softgpu:", done.err)
                        if done.status == 2:
                            refused += 1
                            self.assertEqual((len(lines), done.losses), (1, []), done.err)
                            self.assertIn("POOCH_PLAN", lines[0])
                        else:
                            self.assertEqual((done.status, done.losses, done.weights),
                                             (0, in_core.losses, in_core.weights), done.err)
                            self.assertEqual(done.device["violations"], [])
                            followed += done.summary["planned_iterations"] > 0
            print(f"{MUTANTS} mutants: {refused} refused, {followed} followed, {MUTANTS - refused - followed} left aside")
            self.assertTrue(refused and followed)

    @staticmethod
    def mutant(root, plans, number):
        dice = random.Random(SEED * 1_000_003 + number)
        plan, cap = dice.choice(plans)
        text = spoil(dice, copy.deepcopy(plan))
        file = root / f"mutant-{number}.json"
        file.write_text(text, encoding="utf-8")
        env = {"POOCH_PLAN": str(file), "POOCH_VERIFY": dice.choice(("off", "sample", "all"))}
        return number, run(DEVICE, COMMAND, "--memory", cap, env=env)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
