"""Build hook: compiles `_native/kernel.c`; without a C compiler the package uses scipy.

With the variable EBBOOST_TARGET, one of TARGETS, Zig's compiler builds for another platform.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("ebboost/_native")
# No contraction into fused multiply-adds: the same graph gives the same bits with every compiler.
FLAGS = ["-O3", "-ffp-contract=off", "-fvisibility=hidden", "-shared"]
OWN_FLAGS = {
    ".so": ["-fPIC"],
    ".dylib": ["-fPIC", "-Wl,-install_name,@rpath/libkernel.dylib"],
    ".dll": [],
}
ZIG = [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
#: Targets of Zig and the platforms of their wheels; "pure" has no compiled library.
TARGETS = {
    "x86_64-linux-gnu.2.17": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "aarch64-linux-gnu.2.17": "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "x86_64-linux-musl": "musllinux_1_2_x86_64",
    "aarch64-linux-musl": "musllinux_1_2_aarch64",
    "x86_64-macos.11.0": "macosx_11_0_x86_64",
    "aarch64-macos.11.0": "macosx_11_0_arm64",
    "x86_64-windows-gnu": "win_amd64",
    "pure": "any",
}


def compilers(target: str) -> list[list[str]]:
    """Return the commands to try: Zig's for a target, else CC, those on the path, and Zig's."""
    if target:
        return [] if target == "pure" else [[*ZIG, "-s", "-target", target]]
    commands = [os.environ["CC"].split()] if os.environ.get("CC") else []
    commands += [[name] for name in ("cc", "gcc", "clang") if shutil.which(name)]
    return [*commands, ZIG] if find_spec("ziglang") else commands


class CompileKernels(BuildHookInterface):
    """Adds the shared library to a wheel, or writes it next to its source for an editable one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Try each compiler until one succeeds."""
        target = os.environ.get("EBBOOST_TARGET", "")
        system = target or sys.platform
        kinds = {"macos": ".dylib", "darwin": ".dylib", "win": ".dll"}
        suffix = next((end for name, end in kinds.items() if name in system), ".so")
        self.folder = TemporaryDirectory()
        output = Path(self.folder.name, f"libkernel{suffix}")
        source = Path(self.root, "src", PACKAGE, "kernel.c")
        flags = [*FLAGS, *OWN_FLAGS[suffix]]
        for compiler in compilers(target):
            command = [*compiler, *flags, str(source), "-o", str(output), "-lm"]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except (OSError, subprocess.CalledProcessError) as error:
                self.app.display_warning(f"{' '.join(compiler)}: {getattr(error, 'stderr', error)}")
                continue
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{TARGETS.get(target, platform)}"
            build_data["force_include"][str(output)] = str(PACKAGE / output.name)
            if version == "editable":
                # A running process may have the old library open: write to another name first.
                new = source.with_name(f"{output.stem}-{os.getpid()}{suffix}")
                shutil.copy(output, new)
                new.replace(source.with_name(output.name))
            return
        if target not in ("", "pure"):
            raise RuntimeError(f"Zig cannot compile for {target}.")
        self.app.display_warning(
            "No C compiler: ebboost will use scipy, which is about a third as fast."
        )
