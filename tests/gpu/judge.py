"""What an answer must be for its check to be ok. Each function gives what is wrong, in words; none asks a device, so that each
judgement has a test (tests/unit/tools/gpu_judge.py)."""
import math
import statistics

MIB = 1 << 20
LARGE = 16 * MIB              # bytes of a copy whose rate is the link's
LEAST_LINK = 2e9              # bytes per second: below PCIe 3 x4
LEAST_SHARE_BOTH = 0.4        # of a direction's rate is left to it while the other is used
SHORT_CALL_US = 100           # launches, records and queries are shorter
LONG_CALL_US = 50e3           # allocations are shorter
WORD_WRITTEN = 7              # by the device, in facts_memory.cpp
ARENA = ("0x6a5a4c000000", "0x5a5a4c000000", "0x3a5a4c000000", "0x2a5a4c000000")  # docs/decisions/0056
OPS_APART = 0.10              # what two timers say of all ops together
OPS_LONG_US = 100             # an op for which both timers are compared
STEADY = 8                    # last iterations
DIGESTS_EXTRA = 2 * 1.4 * 1.5  # iterations: two of them 2.4 times as long, and half as much again
DIGESTS_LATER = 1.03
NO_CAP = 1.01                 # times as long as without pooch
TIME_OFF, PEAK_OFF = 0.10, 0.02  # of what was predicted


def finite(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def numbers(found, at=""):
    """Every number is one, and every time and rate is above 0. (What is not a number in C++ is null in JSON.)"""
    if isinstance(found, dict):
        return [wrong for key, value in found.items() for wrong in numbers(value, f"{at}.{key}" if at else key)]
    if isinstance(found, list):
        return [wrong for i, value in enumerate(found) for wrong in numbers(value, f"{at}[{i}]")]
    if found is None or isinstance(found, float) and not math.isfinite(found):
        return [f"{at} is no number"]
    if at.endswith(("_us", "_per_s")) and found <= 0:
        return [f"{at} is {found}"]
    return []


def device(found):
    wrong = [] if found["copy_engines"] >= 2 else [f"{found['copy_engines']} copy engines: copies out and in wait for each other"]
    if 2 * MIB % found["granularity_bytes"] != 0:
        wrong.append(f"handles are of multiples of {found['granularity_bytes']} bytes, not of 2 MiB")
    return wrong + ([] if found["free_bytes"] <= found["total_bytes"] else ["more memory is free than there is"])


def versions(found):
    return [f"{library} is not found" for library in ("cudnn", "cublaslt", "cudart") if found[library] is None]


def naming(found):
    """Where dladdr names the driver's pointer, it must name the function that was asked for. Hooks of a pointer without a name
    rest on the headers' versions alone."""
    rows = [row for row in found["rows"] if row["result"] == 0]
    wrong = [f"{row['name']} {row['version']} is {row['dladdr']}" for row in rows
             if row["exact"] and not row["dladdr"].startswith(row["name"])]
    nameless = [f"{row['name']} {row['version']}" for row in rows if not row["exact"]]
    if nameless:
        wrong.append(f"{len(nameless)} of {len(rows)} pointers have no name of their own: {', '.join(nameless[:3])}")
    if found["named_exactly"] != sum(row["exact"] for row in found["rows"]) or not rows:
        wrong.append(f"{found['named_exactly']} of {len(rows)} are said to be named exactly")
    return wrong


def calls(found):
    return [f"{call} is {us:.0f}" for call, us in found.items()
            if us > (LONG_CALL_US if call.startswith(("allocate", "free")) else SHORT_CALL_US)]


def waiting(found):
    """Mapping calls must not wait for work on other memory."""
    return [f"{way}: {call} waits for other work" for way, sizes in found.items() for call in sizes["waited_for_other_work"]]


def host_memory(found):
    word = found.get("word_read_by_processor")
    return [] if word == WORD_WRITTEN else [f"the processor reads {word} where the device wrote {WORD_WRITTEN}"]


def link(found):
    wrong = []
    for row in (row for row in found["by_size"] if row["bytes"] >= LARGE):
        alone = min(row["out_bytes_per_s"], row["in_bytes_per_s"])
        if alone < LEAST_LINK:
            wrong.append(f"{row['bytes']} bytes at {alone / 1e9:.2f} GB/s")
        if row["each_when_both_bytes_per_s"] < LEAST_SHARE_BOTH * alone:
            wrong.append(f"{row['bytes']} bytes: {row['each_when_both_bytes_per_s'] / 1e9:.2f} GB/s each way at once, "
                         f"{alone / 1e9:.2f} alone")
    return wrong or ([] if any(row["bytes"] >= LARGE for row in found["by_size"]) else ["no large copy was measured"])


def tensor_map(found):
    """What a launch is given must show what it reaches."""
    wrong = [] if found["words_with_the_address"] else ["no word of a tensor map is its address: what it names is pinned"]
    other = set(found["words_that_differ_by_address"]) - set(found["words_with_the_address"])
    if other:
        wrong.append(f"words {sorted(other)} depend on the address too")
    return wrong + [f"not {key}" for key in ("replaced_shows_the_new_address", "replaced_is_as_made_anew") if not found[key]]


def unsteady(found):
    """Cases of batch norm in which cuDNN does not make its own bits again; of none, that."""
    return [f"{case['case']}: cuDNN does not make its own bits again" for case in found["cases"]
            if case["repeats"] is not True or not case["elements"] > 0] + ([] if found["cases"] else ["no case was tried"])


def batch_norm(found):
    """One formula must make every bit, in each case."""
    if unsteady(found):
        return unsteady(found)
    wrong = []
    for case in found["cases"]:
        name, least = min(case["differing"].items(), key=lambda one: one[1])
        if least != 0:
            wrong.append(f"{case['case']}: no formula makes these bits; {name} differs in {least} of {case['elements']}")
    return wrong


LEAST_OF_COPY = 0.6  # of the rate of copies within the device, which read and write as much
COMPARING = 1.15     # times as long as normalising at most: what a plan expects of the one was measured by the other


def batch_norm_kernel(found):
    wrong = [] if found["cases"] else ["no case was tried"]
    for case in found["cases"]:
        normalising, comparing = case["normalise_bytes_per_s"], case["compare_bytes_per_s"]
        if normalising < LEAST_OF_COPY * found["copy_bytes_per_s"]:
            wrong.append(f"rows of {case['row']}: {normalising / 1e9:.0f} GB/s, and copies {found['copy_bytes_per_s'] / 1e9:.0f}")
        if comparing * COMPARING < normalising:
            wrong.append(f"rows of {case['row']}: comparing takes {normalising / comparing:.2f} times as long as normalising")
    return wrong


SUBSTITUTE_SHARE = 0.85  # of what the calls take; two passes over memory in place of three are 0.67


def substitutes(found):
    """Every batch norm has a formula, replays take it, and it saves what makes it worth while."""
    wrong = []
    if not 0 < found["proven"] == found["batch_norms"]:
        wrong.append(f"{found['proven']} of {found['batch_norms']} batch norms have a formula that makes their bits")
    if not found["by_substitute"] > 0:
        wrong.append("no replay was made by a substitute")
    if not found["substitutes_ms"] < SUBSTITUTE_SHARE * found["ops_ms"]:
        wrong.append(f"substitutes take {found['substitutes_ms']:.2f} ms, the calls {found['ops_ms']:.2f}: "
                     f"at most {SUBSTITUTE_SHARE} of that is wanted")
    return wrong


def mapping_us(sizes):
    """What one handle more costs by size of handle, from few and many, in words."""
    def each(rows, call):
        first, last = rows[0], rows[-1]
        return (last[call] - first[call]) / (last["handles"] - first["handles"])
    return ", ".join(f"{size}: {each(rows['by_handles'], 'set_access_us'):.1f} and {each(rows['by_handles'], 'unmap_us'):.1f} us"
                     for size, rows in sizes.items() if isinstance(rows, dict))


def said_wrong(found):
    return list(found["wrong"])


def wrong_words(found):
    return [] if found.get("wrong_words") == 0 else [f"memory does not hold what was written ({found.get('wrong_words')} words)"]


OF_SECTION = {"device": device, "versions": versions, "naming": naming, "calls": calls, "kernel": calls, "vmm_under_load": waiting,
              "kernel_handles": said_wrong, "backend_plan": said_wrong, "tensor_map": tensor_map, "batch_norm_saved": batch_norm,
              "batch_norm_kernel": batch_norm_kernel,
              "alias": wrong_words, "remap": wrong_words, "host_numa_backed": host_memory, "host_backed": host_memory, "link": link}
NEED_CONTENT = {"alias", "remap", "host_numa_backed", "host_backed"}  # in timing mode memory has none
MAY_BE_NULL = {"versions"}


def section(name, found, has_content=True):
    wrong = numbers(found) if name not in MAY_BE_NULL else []
    if wrong or name not in OF_SECTION or (name in NEED_CONTENT and not has_content):
        return wrong
    return OF_SECTION[name](found)


CAN = {"host_numa_backed": ("host_numa_vmm", 1), "host_backed": ("host_vmm", 1), "tensor_map": ("capability_major", 9)}


def refusal(name, why, about_device):
    """A driver may refuse these, unless it says that it can: `CAN` has the attribute and the least value that says so."""
    attribute, least = CAN[name]
    said = about_device.get(attribute)
    return [f"{attribute} is {said}, and yet: {why}"] if said is None or said >= least else []


def launches(seen):
    """`seen`: API function, kind of handle, what cuFuncGetParamInfo and cuKernelGetParamInfo say. The query for the handle's kind
    must answer; the other must refuse, say nothing, or say the same."""
    wrong = [] if seen else ["no launch was seen"]
    for function, kind, *answers in seen:
        as_function, as_kernel = map(int, answers)
        own, other = (as_kernel, as_function) if kind == "kernel" else (as_function, as_kernel)
        if kind == "unknown":
            wrong.append(f"{function}: nobody saw its handle given out")
        elif own < 0:
            wrong.append(f"{function} of a {kind}: its query refuses it with {-own}")
        elif other > 0 and other != own:
            wrong.append(f"{function} of a {kind}: {own} parameters, {other} by the other query")
    return wrong


def is_number(line):
    """The last word of a line of losses: decimal, or hexadecimal as C prints it."""
    text = (line.split() or [""])[-1]
    try:
        return math.isfinite(float.fromhex(text) if "0x" in text else float(text))
    except (ValueError, OverflowError):
        return False


def losses(reference, found, what):
    """The same text for the same bits. What is no finite number equals nothing, itself included."""
    for name, these in (("", reference), (what + " ", found)):
        bad = next((i for i, loss in enumerate(these) if not is_number(loss)), None)
        if bad is not None:
            return [f"{name}the loss is {these[bad]} in iteration {bad}"]
    if reference == found:
        return [] if reference else [f"{what} there are no losses"]
    first = next((i for i, pair in enumerate(zip(reference, found)) if pair[0] != pair[1]), min(len(reference), len(found)))
    return [f"{what} the loss differs from iteration {first} on"]


def arena(address):
    return [] if address in ARENA else [f"the arena begins at {address}, at none of {', '.join(ARENA)}"]


def ops_of(profile):
    """Function and microseconds of every op, phase by phase."""
    return [(phase["functions"][op["function"]], op.get("us")) for phase in profile["phases"] for op in phase["ops"]]


def timers(cupti, events):
    """Two profiles of the same network."""
    wrong = [f"times come from {profile['timer']}, not from {name}" for name, profile in (("cupti", cupti), ("events", events))
             if profile["timer"] != name]
    ops, others = ops_of(cupti), ops_of(events)
    if [name for name, _ in ops] != [name for name, _ in others] or not ops:
        return [*wrong, f"{len(ops)} ops with CUPTI, {len(others)} with events, or in another order"]
    untimed = [name for name, us in ops + others if not (finite(us) and us > 0)]
    if untimed:
        return [*wrong, f"{len(untimed)} ops have no time, {untimed[0]} first"]
    sums = [sum(us for _, us in both) for both in (ops, others)]
    if not abs(sums[0] / sums[1] - 1) <= OPS_APART:
        wrong.append(f"all ops take {sums[0] / 1e3:.1f} ms by CUPTI, {sums[1] / 1e3:.1f} by events")
    far = [f"{name}: {a:.0f} us by CUPTI, {b:.0f} by events" for (name, a), (_, b) in zip(ops, others)
           if max(a, b) > OPS_LONG_US and not 0.5 <= a / b <= 2]
    return wrong + ([f"{len(far)} ops are far apart: {far[0]}"] if far else [])


def steady(laps):
    return statistics.median(laps[-STEADY:])


def digests_extra(off, sample):
    """Iterations' worth of time that early digests take. Milliseconds of the planned iterations, without and with them."""
    slow_start = lambda laps: sum(laps) - len(laps) * steady(laps)
    return (slow_start(sample) - slow_start(off)) / steady(off)


def digests(off, sample):
    if min(len(off), len(sample)) <= STEADY or not all(finite(lap) for lap in off + sample):
        return [f"{len(off)} and {len(sample)} planned iterations were timed"]
    usual, more = steady(off), digests_extra(off, sample)
    wrong = [] if more <= DIGESTS_EXTRA else [f"digests take {more:.1f} iterations in all, {DIGESTS_EXTRA:.1f} are expected"]
    if not steady(sample) <= DIGESTS_LATER * usual:
        wrong.append(f"later iterations take {steady(sample):.1f} ms, {usual:.1f} without digests")
    return wrong


def over(value, limit, what):
    """A goal of the form `value` <= `limit`; what was not measured has not met it."""
    if not finite(value):
        return [f"{what} was not measured"]
    return [] if value <= limit else [f"{what} is {value:.3f}, more than {limit:g}"]


def ratio(rows, name):
    ms, in_core = (rows.get(row, {}).get("ms") for row in (name, "in-core"))
    return ms / in_core if finite(ms) and finite(in_core) and in_core > 0 else None


def goals(rows, most, peers=()):
    """Of rows by name that were to be made: `hybrid` takes at most `most` times as long as in-core training and less than each of
    `peers`; without a cap it is 1 % at most; predictions come near."""
    ours = ratio(rows, "hybrid")
    wrong = over(ours, most, "hybrid over in-core") if "hybrid" in rows else []
    if "pooch-no-cap" in rows:
        wrong += over(ratio(rows, "pooch-no-cap"), NO_CAP, "without a cap, over in-core")
    for peer in peers:
        other = ratio(rows, peer)
        if other is not None and ours is not None and ours >= other:
            wrong.append(f"{peer} is as fast: {other:.3f}")
    if "hybrid" in rows:
        for what, predicted, actual, limit in (("time", "predicted_ms", "actual_ms", TIME_OFF),
                                               ("peak", "predicted_peak_bytes", "planned_peak_bytes", PEAK_OFF)):
            said, was = rows["hybrid"].get(predicted), rows["hybrid"].get(actual)
            both = finite(said) and finite(was) and was > 0
            wrong += over(abs(said / was - 1) if both else None, limit, f"hybrid: how far the predicted {what} is off")
    return wrong
