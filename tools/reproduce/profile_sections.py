"""The sections that stand on profiles: the other machine's plan, Chainer's batch factors and links."""
import dataclasses

import published
from cells import Cell
from charts import Chart
from markdown import percent, table, times

GIB = 1 << 30
P100, MEMORY = "p100-nvlink1", 16 * GIB
NETWORKS = ("googlenet", "resnet50", "resnet152")
# Of 16 GiB, where a program's small allocations are to fit beside the plan.
FOR_PLANS = 16 * GIB - (256 << 20)
# Effective bytes per second each way, and what the publication calls the link.
LINKS = (("NVLink 1.0, 40 GB/s", 32e9), ("PCIe, 16 GB/s", 12e9), ("PCIe shared by two GPUs, 8 GB/s", 6e9))
PROFILE = ("POOCH_REPORT=report build/tools/pooch run --device soft:MODEL:timing:memory=4TiB --memory 3TiB --policy keep -- "
           "build/examples/train --network NETWORK --batch N OPTIONS --iterations 8 --json")


def options(size):
    return () if size == 224 else ("--input-size", str(size))


def sample(network, size, batch):
    return Cell(P100, "16GiB", network, batch, options(size))


def overhead(plan):
    return None if isinstance(plan, int) else plan["predicted_ms"] / plan["in_core_ms"] - 1


def batch_factors(document, profiles):
    rows, labels, series = [], [], {"lms": [], "lms-sync": []}
    marks = {}
    for size in (224, 2240):
        for network in NETWORKS:
            first = sample(network, size, 64 if size == 224 else 1)
            most = {p: profiles.largest_batch(first, p, MEMORY) for p in ("keep", "lms", "lms-sync")}
            factors = [most[p] / most["keep"] if most["keep"] else None for p in series]
            theirs = published.BATCH_FACTORS[network, size]
            at = sample(network, size, max(1, most["lms"]))
            slower = profiles.kept(f"overhead-lms-{at.name}", lambda: overhead(profiles.plan(at, "lms", MEMORY)))
            rows.append([f"{network}, {size}", *most.values(), *(times(f) for f in factors),
                         "in-core impossible" if theirs is None else f"{theirs[0]}× / {theirs[1]}×", percent(slower),
                         published.OVERHEADS[network, size]])
            label = f"{network} {size}"
            labels.append(label)
            for i, (policy, factor) in enumerate(zip(series, factors)):
                series[policy].append(factor)
                if theirs is not None:
                    marks[label, policy] = theirs[i]
    document.add("## Chainer's batch factors (Imai et al., section 4.3.1, Figure 5, Table 1)",
                 f"Published: {published.CHAINER}. P100 with 16 GB on NVLink 1.0; the largest batch of asynchronous (`lms`) and "
                 "synchronous (`lms-sync`) out-of-core training against in-core training, and the extra time of the first.")
    document.chart("batch-factors", Chart("Largest batch against in-core training", "times the batch", labels, series, marks))
    document.add(table(["network, input", "in-core batch", "`lms`", "`lms-sync`", "`lms` factor", "`lms-sync` factor",
                        "published", "`lms` overhead at its largest batch", "published"], rows),
                 f"Commands, MODEL {P100}: `{PROFILE}`, then `build/tools/pooch plan report/profile.json --policy P --memory 2MiB "
                 "--link-out 32e9 --link-in 32e9 -o plan.json`, which names the least memory that the policy needs; the largest N "
                 "whose need is within 16 GiB is searched for. With `--memory 16GiB` the plan has the overhead.")
    document.note("batch factors")


def link_comparison(document, profiles):
    rows, series = [], {f"{policy}, {i} GB/s": [] for policy in ("lms", "lms-sync") for i in (8, 16)}
    for network in NETWORKS:
        cell = sample(network, 2240, 3)
        ms = profiles.kept(f"links-{cell.name}", lambda: {
            policy: [None if isinstance(plan, int) else plan["predicted_ms"]
                     for plan in (profiles.plan(cell, policy, MEMORY, rate) for _, rate in LINKS)]
            for policy in ("lms", "lms-sync", "hybrid")})
        theirs = published.LINK_SPEEDUPS[network]
        row = [network]
        for policy, text in (("lms", f"{theirs[0]}×"), ("lms-sync", f"{theirs[1]}×"), ("hybrid", "–")):
            nvlink, alone, shared = ms[policy]
            factors = [None if nvlink is None or other is None else other / nvlink for other in (shared, alone)]
            row += [times(factors[0]), text, times(factors[1])] if policy != "hybrid" else [times(factors[0])]
            for i, factor in zip((8, 16), factors):
                if policy != "hybrid":
                    series[f"{policy}, {i} GB/s"].append(factor)
        rows.append(row)
    document.add("## Chainer's link comparison (Imai et al., section 4.3.2, Figure 6, Table 2)",
                 "Published: inputs of 2240 × 2240, batch 3; how many times as fast NVLink 1.0 (40 GB/s one way) is as PCIe "
                 "shared by two GPUs (8 GB/s). In the model the links carry 32, 12 (unshared) and 6 GB/s.")
    marks = {(n, f"{p}, 8 GB/s"): v for n in NETWORKS for p, v in zip(("lms", "lms-sync"), published.LINK_SPEEDUPS[n])}
    document.chart("links", Chart("NVLink 1.0 against PCIe", "times as fast", list(NETWORKS), series, marks))
    document.add(table(["network", "`lms`, 8 GB/s", "published", "`lms`, 16 GB/s", "`lms-sync`, 8 GB/s", "published",
                        "`lms-sync`, 16 GB/s", "`hybrid`, 8 GB/s"], rows),
                 f"Commands, MODEL {P100}: `{PROFILE}`, then `build/tools/pooch plan report/profile.json --policy P --memory 16GiB "
                 "--link-out R --link-in R -o plan.json` with R 32e9, 12e9, 6e9.")
    caffe_links(document, profiles)
    document.note("links")


def caffe_links(document, profiles):
    """One line: Cho et al.'s comparison of the V100's links."""
    cell = Cell("v100-nvlink2", "16GiB", "googlenet", 5, options(2240))
    ms = profiles.kept(f"links-{cell.name}", lambda: [
        None if isinstance(plan, int) else plan["predicted_ms"]
        for plan in (profiles.plan(cell, "lms", 16 * GIB, rate) for rate in (65e9, 12e9))])
    factor = None if None in ms else ms[1] / ms[0]
    document.add(f"GoogLeNet, 2240 × 2240, batch 5, V100: NVLink 2.0 (65 GB/s) is {times(factor)} as fast as PCIe (12 GB/s) with "
                 f"`lms`; published {published.CAFFE_LINK_SPEEDUP}× ({published.LMS}, section 2: Caffe, four GPUs at once).")


def other_plans(document, profiles, cells, other):
    """Figure 17's last experiment: `pooch`'s plan for the other machine, carried out on this one."""
    rows = []
    for label, cell in cells.items():
        elsewhere = dataclasses.replace(cell, device=other)

        def make(cell=cell, elsewhere=elsewhere):
            plans = [profiles.plan(c, "pooch", FOR_PLANS) for c in (cell, elsewhere)]
            return [plans[0]["in_core_ms"], *(profiles.carried_out(cell, plan) for plan in plans)]
        in_core, own, theirs = profiles.kept(f"other-plan-{cell.name}", make)
        rows.append([label, *(ms if isinstance(ms, str) else percent(ms / in_core - 1) for ms in (own, theirs))])
    first = next(iter(cells.values()))
    document.add(f"## Figure 17, the other machine's plan: ResNet-50, {first.device}",
                 "Published (section 5.2): with the plan for POWER9, x86 is slower than with its own, and batch 640 fails. Here: "
                 "extra time of `pooch`'s plans as carried out.",
                 table(["batch", "its own plan", f"the plan for {other}"], rows),
                 f"Commands: `{PROFILE}` for both machines, `build/tools/pooch plan report/profile.json --policy pooch --memory "
                 "16128MiB --link-out R --link-in R -o plan.json` with R 12e9 and 65e9, then `POOCH_PLAN=plan.json build/tools/pooch "
                 f"run --device soft:{first.device}:timing --memory 16GiB -- build/examples/train --network resnet50 --batch N "
                 "--iterations 16 --json`.")
    document.note("other plan")
