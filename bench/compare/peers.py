"""Who is compared: hymn and the libraries of this machine, how their drivers are built and their
jobs are started."""

import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INCLUDES = ["/usr/local/include", "/usr/include"]
# What an MPI needs to give the core away while it waits, when ranks share cores; and what it needs
# to be started at all. Everything else is left at its default.
LAUNCHERS = {
    "Open MPI": {
        "arguments": ["--oversubscribe", "--bind-to", "none"],
        "sharing": ["--mca", "mpi_yield_when_idle", "1"],
        "environment": {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_ALLOW_RUN_AS_ROOT": "1",
            "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        },
        "sharing_environment": {},
    },
    "MPICH": {
        "arguments": ["-bind-to", "none"],
        "sharing": [],
        "environment": {},
        "sharing_environment": {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1"},
    },
    "Intel MPI": {
        "arguments": [],
        "sharing": [],
        "environment": {"I_MPI_PIN": "off"},
        "sharing_environment": {"I_MPI_THREAD_YIELD": "2"},
    },
    # Its driver starts the ranks itself, and takes the same option for their number.
    "Gloo": {"arguments": [], "sharing": [], "environment": {}, "sharing_environment": {}},
}
# A hymn that has been tuned here must not stand beside MPIs that have not.
HYMN_ENVIRONMENT = {"HYMN_TUNING": "off"}
# Variables that begin so are settings of a library, whoever has set them.
SETTINGS = ("HYMN_", "OMPI_MCA_", "MPIR_CVAR_", "I_MPI_")


class Missing(Exception):
    """A peer that cannot take part, and why."""


@dataclasses.dataclass
class Peer:
    name: str
    kind: str  # of LAUNCHERS
    launcher: str
    driver: str
    variables: dict = dataclasses.field(default_factory=dict)

    @property
    def is_hymn(self):
        return self.name == "hymn" or self.name.startswith("hymn-")

    def command(self, layout):
        words = LAUNCHERS[self.kind]
        sharing = words["sharing"] if layout.share else []
        program = [] if self.launcher == self.driver else [self.driver]
        return [self.launcher, *words["arguments"], *sharing, "-n", str(layout.ranks), *program]

    def environment(self, layout):
        words = LAUNCHERS[self.kind]
        sharing = words["sharing_environment"] if layout.share else {}
        hymn = HYMN_ENVIRONMENT if self.is_hymn else {}
        return {**os.environ, **words["environment"], **sharing, **hymn, **self.variables}


def inherited_settings():
    """Settings of the libraries that come from the environment and act on the jobs, as text."""
    return [
        f"{name}={shlex.quote(value)}"
        for name, value in sorted(os.environ.items())
        if name.startswith(SETTINGS) and name not in HYMN_ENVIRONMENT
    ]


def kind_of(launcher):
    """Which of LAUNCHERS a launcher is, from what it says about itself."""
    try:
        said = subprocess.run(
            [launcher, "--version"], capture_output=True, text=True, timeout=30, check=False
        ).stdout
    except OSError as error:
        raise Missing(f"{launcher}: {error.strerror}") from error
    for kind, words in (
        ("Open MPI", r"Open MPI|open-mpi\.org|prte"),
        ("Intel MPI", r"Intel\(R\) MPI"),
        ("MPICH", r"HYDRA|MPICH"),
    ):
        if re.search(words, said, re.IGNORECASE):
            return kind
    raise Missing(f"{launcher} is none of {', '.join(LAUNCHERS)}")


def first_program(*names):
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise Missing(f"no {' or '.join(names)} on this machine")


def compile_driver(name, folder, compiler, *words):
    """Compiles a driver with the same options for all; `words` are the source and what differs."""
    folder.mkdir(parents=True, exist_ok=True)
    driver = folder / f"driver-{name}"
    command = [compiler, "-D_GNU_SOURCE", "-O2", "-march=native", f"-I{ROOT}", *words]
    done = subprocess.run(
        [*command, "-o", str(driver)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Missing(f"{compiler} cannot compile its driver:\n{done.stderr.strip()}")
    return str(driver)


def mpi_peer(name, compilers, launchers, folder):
    compiler = first_program(*compilers)
    launcher = first_program(*launchers)
    driver = compile_driver(name, folder, compiler, "-std=gnu11", str(HERE / "mpi_driver.c"))
    return Peer(name, kind_of(launcher), launcher, driver)


def gloo_peer(folder):
    if not any(pathlib.Path(place, "gloo", "allreduce.h").exists() for place in INCLUDES):
        raise Missing(f"no gloo/allreduce.h in {' or '.join(INCLUDES)}")
    compiler = first_program("c++", "g++")
    words = ["-std=c++20", str(HERE / "gloo_driver.cpp"), "-lgloo", "-pthread"]
    driver = compile_driver("gloo", folder, compiler, *words)
    return Peer("gloo", "Gloo", driver, driver)


def given_peer(text, folder):
    """NAME=/path/to/bin, which holds an mpicc and an mpirun or mpiexec."""
    name, _, place = text.partition("=")
    if not re.fullmatch(r"[\w.-]+", name) or not place:
        raise Missing(f"--peer {text}: NAME=/path/to/bin is what it takes")
    place = pathlib.Path(place)
    return mpi_peer(
        name, [str(place / "mpicc")], [str(place / "mpirun"), str(place / "mpiexec")], folder
    )


def hymn_peer(build, name="hymn", variables=None):
    """hymn of a build, started by the launcher of the MPI that it was built for."""
    driver = build / "bin" / "bench_compare_hymn"
    if not driver.exists():
        raise Missing(f"no {driver}: build the target bench_compare_hymn")
    launcher = "mpirun"
    for line in (build / "CMakeCache.txt").read_text().splitlines():
        if line.startswith("MPIEXEC_EXECUTABLE:"):
            launcher = line.partition("=")[2]
    return Peer(name, kind_of(launcher), launcher, str(driver), variables or {})


def parse_variant(text):
    """NAME=VARIABLE:VALUE,… : hymn once more, with other settings."""
    name, _, words = text.partition("=")
    variables = dict(word.split(":", 1) for word in words.split(",") if ":" in word)
    if not re.fullmatch(r"[\w.-]+", name) or not variables:
        raise Missing(f"--variant {text}: NAME=VARIABLE:VALUE,… is what it takes")
    return f"hymn-{name}", variables


def find_peers(options):
    """All peers that can take part, and for each of the others why not."""
    folder = options.build / "bench" / "drivers"
    makers = {
        "hymn": lambda: hymn_peer(options.build),
        "openmpi": lambda: mpi_peer("openmpi", ["mpicc.openmpi"], ["mpirun.openmpi"], folder),
        "mpich": lambda: mpi_peer("mpich", ["mpicc.mpich"], ["mpirun.mpich"], folder),
        "gloo": lambda: gloo_peer(folder),
    }
    for text in options.variant:
        name, variables = parse_variant(text)
        makers[name] = lambda name=name, variables=variables: hymn_peer(
            options.build, name, variables
        )
    for text in options.peer:
        makers[text.partition("=")[0]] = lambda text=text: given_peer(text, folder)
    peers, missing = [], {}
    for name, make in makers.items():
        if options.only and name not in options.only:
            continue
        try:
            peers.append(make())
        except Missing as why:
            missing[name] = str(why)
    for name in options.only:
        if name not in makers:
            missing[name] = f"not known; there are {', '.join(makers)}"
    return peers, missing
