#!/usr/bin/python3
"""Proposes a model of the software GPU from what was measured on a device.

calibrate.py RESULTS MODEL [-o FILE]

RESULTS is what tests/gpu/run.py wrote, MODEL a file of softgpu/models. Only fields that were measured change; each change is
shown, with how much it is. Without -o nothing is written. Mapping calls cost a + b · handles: the dearest of what was measured
idle and with copies each way; cuMemSetAccess beside copies to the host has a price of its own. What does not lie on such a line
is named on stderr, its field stays as it is, and the exit code is 1.
"""
import argparse
import json
import pathlib
import re
import sys

import handle_costs

HANDLE = "128MiB"  # the size that costs besides mapping are taken from: what pooch uses under caps of 2 GiB and more
LOADS = ("to_device", "to_host")
LARGE = 16 << 20   # bytes of a copy whose rate is the link's
PINNED_SMALL = 2 << 20


class Facts:
    """What a result file says; None for what it does not have."""

    def __init__(self, results):
        self.sections = {}
        for part in ("facts", "links"):
            for check in results["parts"].get(part, {}).get("checks", []):
                found = check.get("found", {})
                if "unanswered" not in found:
                    self.sections["link" if part == "links" else check["name"]] = found
        self.results = results

    def get(self, section, *keys):
        value = self.sections.get(section)
        for key in keys:
            value = None if value is None else value.get(key)
        return value

    def link_rate(self, key):
        """The best of large copies; None without any."""
        rows = [row[key] for row in self.get("link", "by_size") or [] if row["bytes"] >= LARGE]
        return max(rows, default=None)


def scaled(value, factor, less=0.0):
    return None if value is None else max(0.0, value * factor - less)


def measured(facts, model):
    """Path in the model's file, and its value as measured, for every field that a result file can have."""
    api = model["host_ns"]["api"]  # every call costs that; the fields say what comes on top
    total, free = facts.get("device", "total_bytes"), facts.get("device", "free_bytes")
    for field, attribute in (("multiprocessors",) * 2, ("clock_khz",) * 2, ("memory_clock_khz",) * 2, ("memory_bus_bits",) * 2,
                             ("l2_bytes",) * 2, ("memory_bytes", "free_bytes")):
        yield (field,), facts.get("device", attribute)
    yield ("context_bytes",), None if total is None else total - free
    yield ("host_ns", "vmm_reserve"), scaled(facts.get("vmm", "idle", HANDLE, "reserve_us"), 1e3, api)
    for row in facts.get("vmm", "idle", HANDLE, "by_handles") or []:
        if row["handles"] == 1:
            yield ("host_ns", "vmm_destroy"), scaled(row["release_us"], 1e3, api)
    for field, call in (("event", "event_record_us"), ("query", "event_query_us"), ("synchronize", "stream_synchronize_us"),
                        ("copy_submit", "copy_submit_us"), ("allocate", "allocate_64MiB_us"), ("free", "free_64MiB_us")):
        yield ("host_ns", field), scaled(facts.get("calls", call), 1e3, api)
    yield ("event_gap_ns",), scaled(facts.get("kernel", "event_between_us"), 1e3)
    yield ("host_ns", "launch"), scaled(facts.get("kernel", "launch_us"), 1e3, api)
    yield from pinning(facts, api)
    latency = facts.get("link", "latency_us")
    yield ("link", "to_host"), facts.link_rate("out_bytes_per_s")
    yield ("link", "to_device"), facts.link_rate("in_bytes_per_s")
    yield ("link", "latency_ns"), scaled(latency, 1e3)
    yield ("bytes_per_s", "set"), facts.get("device_copy", "set_bytes_per_s")
    # The model counts what is read and what is written.
    yield ("bytes_per_s", "copy_device"), scaled(facts.get("device_copy", "copy_bytes_per_s"), 2)


def mapping(facts, api, cannot):
    """The same for calls whose cost depends on how many handles they are for. `cannot` gets what could not be fitted. One call
    makes or maps one handle, so that these two have no cost without any."""
    conditions = {"idle": facts.get("vmm", "idle")} | {way: facts.get("vmm_under_load", way) for way in LOADS}
    # An H200 gives access thirty times more slowly beside copies to the host, and only there.
    outward = {"to_host": conditions["to_host"]}
    others = {name: found for name, found in conditions.items() if name not in outward}
    base_elsewhere = 0
    for call, among, field, by_handle in (("create", conditions, "vmm_create", None), ("map", conditions, "vmm_map", None),
                                          ("set_access", others, "vmm_set_access", "vmm_set_access_per_handle"),
                                          ("set_access", outward, None, "vmm_set_access_beside_copies_to_host"),
                                          ("unmap", conditions, "vmm_unmap", "vmm_unmap_per_handle")):
        try:
            condition, base, each, off = handle_costs.dearest(among, call)
        except handle_costs.CannotFit as why:
            cannot.append(f"host_ns.{field or by_handle} cannot be fitted and stays: {why}")
            continue
        if among is others:
            base_elsewhere = base
        if among is outward:  # the model has no base for it: the difference is spread over a typical call's handles
            each = max(each, (base - base_elsewhere) / handle_costs.TYPICAL + each)
        remark = f"{condition}: {base:.4g} + {each:.4g} us a handle, within {off:.0%}"
        if field:
            yield ("host_ns", field), scaled(base if by_handle else each, 1e3, api), remark
        if by_handle:
            yield ("host_ns", by_handle), each * 1e3, remark


def pinning(facts, api):
    small, large, count = (facts.get("pinning", key) for key in ("allocate_2MiB_us", "allocate_us", "bytes"))
    if None in (small, large, count):
        return
    per_byte = max(0.0, (large - small) / (count - PINNED_SMALL))
    yield ("host_ns", "pin_per_gb"), per_byte * 1e12
    yield ("host_ns", "pin_call"), scaled(small, 1e3, api + per_byte * PINNED_SMALL * 1e3)


def replace(text, path, value):
    """The file's text with one number changed, all else as it stands."""
    start = 0 if len(path) == 1 else text.index(f'"{path[0]}"')
    number = re.compile(rf'("{path[-1]}":\s*)([-+.\deE]+)')
    found = number.search(text, start)
    whole = f"{round(value / 1e9)}e9" if path[0].endswith("_per_s") or path[-1] in ("to_host", "to_device") else str(round(value))
    return text[:found.start(2)] + whole + text[found.end(2):]


def value_at(model, path):
    for key in path:
        model = model[key]
    return model


def changes(facts, model, cannot):
    for path, value in measured(facts, model):
        if value is not None and value > 0:
            yield path, value_at(model, path), value, ""
    for path, value, remark in mapping(facts, model["host_ns"]["api"], cannot):
        yield path, value_at(model, path), value, remark


def with_source(text, model, results, fields):
    """Adds where the numbers come from to the model's own list of sources."""
    line = (f"Measured on {results['machine']['gpu']['name']} ({results['device']}, driver {results['machine']['driver']}), "
            f"{results['date'][:10]}, by tests/gpu/run.py: {', '.join(fields)}.")
    text = text.replace(" Nothing here was measured.", "")
    if "source" not in model:
        return text.replace("{", "{\n  \"source\": [\n    " + json.dumps(line) + "\n  ],", 1)
    last = json.dumps(model["source"][-1], ensure_ascii=False).replace(" Nothing here was measured.", "")
    return text.replace(last, last + ",\n    " + json.dumps(line), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results")
    parser.add_argument("model")
    parser.add_argument("-o", "--output", help="file for the proposal")
    o = parser.parse_args()
    try:
        results = json.loads(pathlib.Path(o.results).read_text(encoding="utf-8"))
        text = pathlib.Path(o.model).read_text(encoding="utf-8")
        model = json.loads(text)
        cannot = []
        rows = list(changes(Facts(results), model, cannot))
    except (OSError, ValueError) as error:
        sys.exit(f"calibrate: {error}")
    except (KeyError, TypeError, AttributeError) as error:
        sys.exit(f"calibrate: {o.results} or {o.model} is of another kind ({error} is not where it should be)")
    if not rows:
        sys.exit(f"calibrate: {o.results} has no facts of a device")
    if results["device"] != "real":
        print(f"calibrate: these are numbers of {results['device']}, not of silicon", file=sys.stderr)
    for path, before, after, remark in rows:
        change = f"{100 * (after / before - 1):+8.1f} %" if before else ""
        print(f"{'.'.join(path):34} {before:>16.6g} {after:>16.6g}  {change:10}  {remark}".rstrip())
        text = replace(text, path, after)
    if o.output:
        pathlib.Path(o.output).write_text(with_source(text, model, results, [".".join(path) for path, *_ in rows]),
                                          encoding="utf-8")
    for line in cannot:
        print(f"calibrate: {line}", file=sys.stderr)
    sys.exit(1 if cannot else 0)


if __name__ == "__main__":
    main()
