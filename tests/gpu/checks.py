"""What a check is: a function that gives its numbers as a dict, or raises Failed or Skipped. Of the numbers, `remark` is
printed."""
import fnmatch
import json
import subprocess
import sys
import time


class Verdict(Exception):
    def __init__(self, reason, numbers=None):
        super().__init__(reason)
        self.reason, self.numbers = reason, numbers or {}


class Failed(Verdict):
    status = "failed"


class Skipped(Verdict):
    status = "skipped"


def require(condition, reason, numbers=None):
    if not condition:
        raise Failed(reason, numbers)


def skipping(reason):
    """A check that only says why it cannot be made."""
    def check():
        raise Skipped(reason)
    return check


class Checks:
    """Makes the checks that are chosen, one after the other, until the time is up."""

    def __init__(self, only, seconds):
        self.only = only  # PART or PART:PATTERN
        self.end = time.monotonic() + seconds if seconds else None
        self.unused = set(only)
        self.ok = 0

    def chosen(self, part, name=None):
        """Is this check to be made; without a name: any of the part?"""
        for choice in self.only:
            wanted, _, pattern = choice.partition(":")
            if wanted == part and (name is None or fnmatch.fnmatchcase(name, pattern or "*")):
                if name is not None:
                    self.unused.discard(choice)
                return True
        return not self.only

    def make(self, part, checks, earlier=None):
        """`checks`: pairs of name and function; `earlier`: the part as this gave it before, whose other checks stay. Gives the
        part's status and each check's."""
        made = [self.one(part, name, check) for name, check in checks if self.chosen(part, name)]
        names = {one["name"] for one in made}
        made = [one for one in (earlier or {"checks": []})["checks"] if one["name"] not in names] + made
        of = {status: sum(one["status"] == status for one in made) for status in ("ok", "failed", "skipped")}
        status = "failed" if of["failed"] else "ok" if of["ok"] else "skipped"
        return {"status": status, **of, "checks": made}

    def one(self, part, name, check):
        begin, status, reason, numbers = time.monotonic(), "ok", None, {}
        try:
            if self.end is not None and begin > self.end:
                raise Skipped("no time was left")
            numbers = check()
        except Verdict as verdict:
            status, reason, numbers = verdict.status, verdict.reason, verdict.numbers
        except FileNotFoundError as error:
            status, reason = "failed", f"missing: {error.filename}"
        except subprocess.TimeoutExpired as error:
            status, reason = "failed", f"took longer than {error.timeout:.0f} s"
        except (OSError, ValueError, KeyError, TypeError) as error:  # a program that says something else than expected
            status, reason = "failed", f"{type(error).__name__}: {error}"
        self.ok += status == "ok"
        seconds = round(time.monotonic() - begin, 1)
        words = reason or numbers.get("remark")
        print(f"{status:8}{part}/{name} ({seconds} s){f': {words}' if words else ''}", flush=True)
        return {"name": name, "status": status} | ({"reason": reason} if reason else {}) | {"seconds": seconds, **numbers}


def nothing_done(checks, program):
    """A run in which all was skipped has shown nothing."""
    if checks.ok == 0:
        print(f"{program}: no check is ok: nothing was shown", file=sys.stderr)
    return checks.ok == 0


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
