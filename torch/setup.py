"""Builds the extension against the torch that is installed, and hymn's C API.

hymn is found by HYMN_HOME (the folder that `cmake --install` has filled), or else by pkg-config.
"""

import glob
import os
import subprocess
import sys

from setuptools import setup

try:
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ImportError:
    sys.exit("hymn-torch is built against an installed torch: install it first, and give pip "
             "--no-build-isolation")


def pkg_config(what):
    try:
        return subprocess.check_output(["pkg-config", what, "hymn"], text=True).split()
    except (OSError, subprocess.CalledProcessError):
        sys.exit("hymn is not found: install it (cmake --install build), and set HYMN_HOME to its "
                 "folder, or PKG_CONFIG_PATH to where hymn.pc is")


def of_home(home):
    include = os.path.join(home, "include")
    for name in ("lib", "lib64", *glob.glob(os.path.join(home, "lib", "*-linux-gnu"))):
        folder = os.path.join(home, name)
        if os.path.exists(os.path.join(folder, "libhymn.so")):
            return [f"-I{include}"], [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lhymn"]
    sys.exit(f"HYMN_HOME is {home}, where no libhymn.so is")


def hymn_flags():
    home = os.environ.get("HYMN_HOME")
    if home:
        return of_home(os.path.abspath(home))
    folders = [f[2:] for f in pkg_config("--libs-only-L")]
    rpaths = [f"-Wl,-rpath,{folder}" for folder in folders]
    return pkg_config("--cflags"), pkg_config("--libs") + rpaths


def unity_sources(count=2):
    """The sources, a few at a time: nearly all of the time goes into torch's headers."""
    folder = os.path.join("build", "unity")
    os.makedirs(folder, exist_ok=True)
    sources = sorted(glob.glob("csrc/*.cpp"))
    made = []
    for i in range(count):
        path = os.path.join(folder, f"hymn_torch_{i}.cxx")
        text = "".join(f'#include "../../{source}"\n' for source in sources[i::count])
        if not os.path.exists(path) or open(path).read() != text:
            with open(path, "w") as file:
                file.write(text)
        made.append(path)
    return made


compile_flags, link_flags = hymn_flags()
setup(
    ext_modules=[
        CppExtension(
            name="hymn_torch._C",
            sources=unity_sources(),
            extra_compile_args=["-O2", "-fvisibility=hidden", "-Wall", *compile_flags],
            extra_link_args=link_flags,
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
