"""The vendor's own libraries on the device: every look-up passes the hooks, and what their kernels are launched with."""
import collections
import functools
import os
import pathlib
import tempfile

import lookups
from checks import Skipped, require
from judge import launches


class LookUps:
    def __init__(self, programs, device):
        self.programs, self.device = programs, device
        self.toolkit = lookups.toolkit()

    def first_call(self, library, preload):
        command = [self.programs.real_libraries, lookups.find(library, self.toolkit), lookups.FIRST_CALL[library]]
        with tempfile.TemporaryDirectory() as folder:
            where = [folder] if self.device.software else [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
            if self.device.software:  # its driver, and no other library of it
                os.symlink(self.programs.softgpu / "libcuda.so.1", f"{folder}/libcuda.so.1")
            done, lines = lookups.spied(command, [self.programs.spy, *preload], [*where, *self.toolkit],
                                        SOFTGPU_MODELS=str(self.programs.softgpu / "models"))
        require(done.returncode == 0, f"{library}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
        return int(done.stdout), lookups.look_ups(lines)

    def check(self, library):
        if lookups.find(library, self.toolkit) is None:
            raise Skipped(f"{library} is not installed")
        libpooch = self.programs.libpooch()
        status, plain = self.first_call(library, [])
        hooked_status, hooked = self.first_call(library, [libpooch])
        wrong, wrapped = lookups.judge(plain, hooked, lookups.exported(libpooch) - {"dlsym"})
        numbers = {"look_ups": len(hooked), "wrapped": wrapped, "first_call_gives": status, "wrong": wrong[:20]}
        require(not wrong, f"{len(wrong)} wrong: {wrong[0] if wrong else ''}", numbers)
        require(status == hooked_status, f"{lookups.FIRST_CALL[library]} gives {hooked_status} with libpooch.so, {status} without", numbers)
        # The vendor's runtimes refuse a driver that is not, once they have asked for all that they will ever call.
        require(self.device.software or status == 0, f"{lookups.FIRST_CALL[library]} gives {status}", numbers)
        return numbers | {"remark": f"{len(hooked)} look-ups, {wrapped} of them wrapped"}

    def launches(self):
        """What the trainer's libraries launch their kernels with, and what the driver's queries say of it."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "spy")
            under_spy = ["/bin/sh", "-c", f"LD_PRELOAD='{self.programs.spy}':$LD_PRELOAD LOOKUP_SPY='{log}' exec \"$@\"", "sh"]
            run = self.programs.run(self.device, [*under_spy, self.programs.train, "--network", "digits", "--iterations", "2"],
                                    "--no-pooch")
            lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        seen = [line.split()[1:] for line in lines if line.startswith("launch ")]
        kinds = collections.Counter(f"{function} of a {kind}" for function, kind, _, _ in seen)
        numbers = {"kernels": dict(kinds)}
        require(run.status == 0, f"exit code {run.status}: {run.last_words()}", numbers)
        wrong = launches(seen)
        require(not wrong, "; ".join(wrong[:3]), numbers | {"wrong": wrong})
        return numbers | {"remark": ", ".join(f"{count} {what}" for what, count in kinds.items())}

    def checks(self):
        for library in lookups.FIRST_CALL:
            yield library.split(".")[0].removeprefix("lib"), functools.partial(self.check, library)
        yield "launches", self.launches
