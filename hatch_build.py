"""Build hook: compiles `_native/kernels.c`; without a C compiler the package uses scipy."""

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/ebboost/_native/kernels.c")
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
LIBRARY = SOURCE.with_name(f"libkernels{SUFFIX}")
# No contraction into fused multiply-adds: the same graph gives the same bits with every compiler.
FLAGS = ["-O3", "-ffp-contract=off", "-fvisibility=hidden", "-shared"]
if os.name != "nt":
    FLAGS.append("-fPIC")


def compilers() -> list[list[str]]:
    """Return the commands to try: that of the variable CC, those on the path, and Zig's wheel."""
    commands = [os.environ["CC"].split()] if os.environ.get("CC") else []
    commands += [[name] for name in ("cc", "gcc", "clang") if shutil.which(name)]
    if find_spec("ziglang"):
        commands.append([sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"])
    return commands


class CompileKernels(BuildHookInterface):
    """Writes the shared library next to its source and adds it to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Try each compiler until one succeeds."""
        library = Path(self.root, LIBRARY)
        library.unlink(missing_ok=True)
        # A running process may have the old library open: write to another name first.
        output = library.with_name(f"{library.stem}-{os.getpid()}{library.suffix}")
        for compiler in compilers():
            command = [*compiler, *FLAGS, str(Path(self.root, SOURCE)), "-o", str(output), "-lm"]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except (OSError, subprocess.CalledProcessError) as error:
                self.app.display_warning(f"{' '.join(compiler)}: {getattr(error, 'stderr', error)}")
                continue
            output.replace(library)
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
            build_data["artifacts"].append(f"/{LIBRARY.as_posix()}")
            return
        self.app.display_warning(
            "No C compiler: ebboost will use scipy, which is about a third as fast."
        )
