"""Build and check what a release consists of: an sdist, a wheel for each platform, a pure one.

    python tools/release.py build [--dist FOLDER]  # with Zig's compiler
    python tools/release.py check                  # names, versions, contents, compiled libraries
    python tools/release.py run                    # the libraries, as far as there are emulators

The variable TAG is compared with the version. It needs the packages of the dependency group
`release`; tools/smoke.py installs the files. See docs/contributing.md.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path
from tempfile import TemporaryDirectory

import lief

lief.logging.disable()
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
from hatch_build import TARGETS, ZIG  # noqa: E402

VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "src/ebboost/__init__.py").read_text())[1]
#: What the package calls in a library.
FUNCTIONS = {"ebboost_version", "ebboost_sweep_float", "ebboost_sweep_double"}
#: What a library may need of its platform.
SYSTEM_LIBRARIES = {
    "linux-gnu": {"libc.so.6", "libm.so.6"},
    "linux-musl": {"libc.so"},
    "macos": {"@rpath/libkernel.dylib", "/usr/lib/libSystem.B.dylib"},
    "windows": {"kernel32.dll"},
}
MACHINES = {"x86_64": ("X86_64", "AMD64"), "aarch64": ("AARCH64", "ARM64")}
#: How programs of other platforms are started here.
EMULATORS = {
    "x86_64-linux-gnu": (),
    "x86_64-linux-musl": ("/lib/ld-musl-x86_64.so.1",),
    "aarch64-linux-gnu": ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
    "x86_64-windows": ("wine",),
}


def wheels(dist: Path) -> dict[str, Path]:
    """The wheel of each target."""
    paths = {
        target: dist / f"ebboost-{VERSION}-py3-none-{tag}.whl" for target, tag in TARGETS.items()
    }
    expected = {*paths.values(), dist / f"ebboost-{VERSION}.tar.gz"}
    require(set(dist.glob("*")) == expected, f"{dist} must hold {sorted(p.name for p in expected)}")
    return paths


def require(condition: object, message: str) -> None:
    """End with a message unless the condition holds."""
    if not condition:
        raise SystemExit(f"release: {message}")


def build(dist: Path) -> None:
    """Build the files into an empty folder."""
    shutil.rmtree(dist, ignore_errors=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist)]
    subprocess.run([*command, "--sdist"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for target in TARGETS:
        print("building for", target, flush=True)
        environment = os.environ | {"EBBOOST_TARGET": target}
        run = {"cwd": ROOT, "check": True, "stdout": subprocess.DEVNULL}
        subprocess.run([*command, "--wheel"], env=environment, **run)


def check(dist: Path) -> None:
    """Check versions, contents and libraries."""
    tag = os.environ.get("TAG") or f"v{VERSION}"
    require(tag == f"v{VERSION}", f"the tag is {tag}, the version {VERSION}")
    command = ["git", "ls-files", "src"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    sources = {name.removeprefix("src/"): (ROOT / name).read_bytes() for name in listed.split()}
    for target, path in wheels(dist).items():
        with zipfile.ZipFile(path) as wheel:
            contents = {name: wheel.read(name) for name in wheel.namelist()}
        folder = f"ebboost-{VERSION}.dist-info/"
        metadata = BytesParser().parsebytes(contents[folder + "METADATA"])
        require(metadata["Version"] == VERSION, f"{path.name} has version {metadata['Version']}")
        licences = {name for name in contents if name.startswith(folder + "licenses/")}
        require(len(licences) == 2, f"{path.name} must hold LICENSE and NOTICE, has {licences}")
        packaged = {name: data for name, data in contents.items() if not name.startswith(folder)}
        libraries = [name for name in packaged if Path(name).suffix in (".so", ".dylib", ".dll")]
        require(len(libraries) == (target != "pure"), f"{path.name} holds {libraries}")
        for name in libraries:
            check_library(target, packaged.pop(name))
        require(packaged == sources, f"{path.name}: {packaged.keys() ^ sources.keys()} differ")
        print("sound:", path.name)
    with tarfile.open(dist / f"ebboost-{VERSION}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    packed = {f"src/{name}" for name in sources} | {"hatch_build.py", "LICENSE", "NOTICE"}
    require(packed <= names, f"the sdist lacks {packed - names}")


def check_library(target: str, content: bytes) -> None:
    """Check machine, functions and what is needed of the platform."""
    library = lief.parse(content)
    machine, _, system = target.partition("-")
    system = system.partition(".")[0]
    exported = {function.name.lstrip("_") for function in library.exported_functions}
    require(exported >= FUNCTIONS, f"{target} lacks {FUNCTIONS - exported}")
    imported = {str(function.name) for function in library.imported_functions}
    python = {name for name in imported if name.lstrip("_").startswith("Py")}
    require(not python, f"{target} must not depend on a version of Python, imports {python}")
    needed = {getattr(one, "name", one) for one in library.libraries}
    allowed = next(names for key, names in SYSTEM_LIBRARIES.items() if system.startswith(key))
    needed = {name for name in needed if not str(name).startswith("api-ms-win-crt-")}
    others = {name for name in needed if name not in allowed and name.lower() not in allowed}
    require(not others, f"{target} needs {others}")
    header = library.header
    kind = getattr(header, "machine_type", None) or getattr(header, "machine", None)
    kind = str(kind or header.cpu_type).rpartition(".")[2]
    require(kind in MACHINES[machine], f"{target} is for {kind}")
    if system == "linux-gnu":
        check_glibc(target, library)
    if system == "macos" and machine == "aarch64":
        require(library.has_code_signature, f"{target} must be signed, or macOS does not load it")


def check_glibc(target: str, library: lief.ELF.Binary) -> None:
    """Check that no symbol is newer than the glibc of the target."""
    limit = tuple(map(int, target.partition("gnu.")[2].split(".")))
    for requirement in library.symbols_version_requirement:
        for symbol in requirement.get_auxiliary_symbols():
            version = tuple(map(int, symbol.name.removeprefix("GLIBC_").split(".")))
            require(version <= limit, f"{target} needs {symbol.name} of {requirement.name}")


def run(dist: Path) -> None:
    """Run the sweep of the libraries that can run here: all must give the same bits."""
    results = {}
    for target, path in wheels(dist).items():
        if target == "pure":
            continue
        key = next((key for key in EMULATORS if target.startswith(key)), None)
        emulator = EMULATORS.get(key, ("its platform",))
        if emulator and not shutil.which(emulator[0]):
            print(f"not run: {target}, needs {emulator[0]}")
            continue
        with TemporaryDirectory() as folder, zipfile.ZipFile(path) as wheel:
            name = next(name for name in wheel.namelist() if "libkernel" in name)
            library = Path(wheel.extract(name, folder))
            program = Path(folder, "run_library.exe")
            source = str(ROOT / "tools/run_library.c")
            subprocess.run(
                [*ZIG, "-O2", "-dynamic", "-target", target, source, "-o", str(program)], check=True
            )
            command = [*emulator, str(program), library.name]
            environment = os.environ | {"WINEDEBUG": "-all", "LD_LIBRARY_PATH": str(library.parent)}
            done = subprocess.run(
                command, cwd=library.parent, env=environment, capture_output=True, text=True
            )
            require(done.returncode == 0, f"{target}: {done.stdout}{done.stderr}")
            results[target] = done.stdout.strip()
            print("ran:", target, results[target])
    require(len(set(results.values())) == 1, f"results differ: {results}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = {step.__name__: step for step in (build, check, run)}
    parser.add_argument("steps", nargs="+", choices=steps)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    for step in options.steps:
        steps[step](options.dist)
