#!/usr/bin/env python3
"""Builds small faults into hymn, and tells which of them no test finds.

  scripts/mutants list              the faults of tests/mutants/*.toml, numbered
  scripts/mutants check             whether each still fits the source that it names
  scripts/mutants build [TARGET …]  compiles all of them at once into build/mutants/build
  scripts/mutants run [NUMBER …]    runs the tests of each with that fault alone switched on

One build holds all faults; the variable MUTANT_OF_HYMN switches one on. A fault is a table of TOML:

  [[mutant]]
  file = "control/store_service.cpp"
  near = "return call == StoreCall::set"   # optional: unique text that holds `from`
  from = "call == StoreCall::compare_set"  # a whole expression; or statements
  to = "false"
  tests = "unit_control"                   # those that should find it: ctest's -R
  cases = "Coordinator*"                          # optional: of these, GTEST_FILTER
  fault = "compare_set wakes nobody"

`run` first runs the tests without any fault: what fails then finds nothing. It ends with a table of the
rooms, and fails if more than 5 in 100 faults live. Faults belong into sources: one in a header that many
include makes hundreds of files to compile.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TREE = ROOT / "build" / "mutants"
MOST_ALIVE = 0.05
LONGEST_TESTS = 600  # seconds, for those of one fault


class Mutant:
    def __init__(self, number, table, source):
        self.number = number
        self.file = table["file"]
        self.room = self.file.split("/")[0]
        self.origin = table["from"]
        self.fault = table["to"]
        self.near = table.get("near", self.origin)
        self.tests = table["tests"], table.get("cases", "*")
        self.what = table["fault"]
        self.source = source

    def __str__(self):
        return f"{self.number:3} {self.file}: {self.what}"

    def place(self, text):
        """Where it begins and ends in the text of its file. Throws if it does not fit there."""
        if text.count(self.near) != 1:
            raise ValueError(f"{self.source}: {self.file} holds {text.count(self.near)} times "
                             f"{self.near!r}, wanted is once ({self.what})")
        if self.near.count(self.origin) != 1:
            raise ValueError(f"{self.source}: not once in {self.near!r}: {self.origin!r}")
        is_statement = self.origin.rstrip().endswith((";", "}"))
        for code in (self.origin, self.fault):
            if code.count("(") != code.count(")") or (re.match("return |if ", code) and not is_statement):
                raise ValueError(f"{self.source}: neither an expression nor statements: {code!r}")
        begin = text.index(self.near) + self.near.index(self.origin)
        return begin, begin + len(self.origin)

    def code(self):
        chosen = f"::hymn::mutants::is_on({self.number})"
        if self.origin.rstrip().endswith((";", "}")):
            return f"if ({chosen}) {{ {self.fault} }} else {{ {self.origin} }}"
        return f"({chosen} ? ({self.fault}) : ({self.origin}))"


def read_mutants():
    mutants = []
    for file in sorted((ROOT / "tests/mutants").glob("*.toml")):
        for table in tomllib.loads(file.read_text())["mutant"]:
            mutants.append(Mutant(len(mutants) + 1, table, file.relative_to(ROOT)))
    return mutants


def mutated(path, mutants):
    """The text of a source with all its mutants, the last one first so that places stay right."""
    text = (ROOT / path).read_text()
    places = sorted(((m.place(text), m) for m in mutants), key=lambda found: found[0], reverse=True)
    end = len(text)
    for (begin, until), mutant in places:
        if until > end:
            raise ValueError(f"{mutant.source}: two mutants of {path} overlap ({mutant.what})")
        text = text[:begin] + mutant.code() + text[until:]
        end = begin
    return f'#include "tests/mutants/mutant.hpp"\n#line 1\n{text}'


def by_file(mutants):
    files = {}
    for mutant in mutants:
        files.setdefault(mutant.file, []).append(mutant)
    return files


def check(mutants):
    """All that is wrong with the table, at once."""
    wrong = 0
    for path, own in by_file(mutants).items():
        try:
            mutated(path, own)
        except (ValueError, OSError) as error:
            print(f"mutants: {error}", file=sys.stderr)
            wrong += 1
    if wrong:
        sys.exit(1)


def write_if_changed(path, data):
    """Keeps the time of what is as it was, so that little is compiled again."""
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def copy_tree(mutants):
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, check=True, capture_output=True).stdout
    files = by_file(mutants)
    for name in filter(None, listed.decode().split("\0")):
        if name in files:
            write_if_changed(TREE / name, mutated(name, files[name]).encode())
        elif (ROOT / name).is_file():
            write_if_changed(TREE / name, (ROOT / name).read_bytes())
            shutil.copymode(ROOT / name, TREE / name)


def build(mutants, targets):
    check(mutants)
    copy_tree(mutants)
    image = ROOT / "build/collectives/kernels.fatbin"
    options = ["-DHYMN_TESTS=ON"]
    if image.is_file():
        options.append(f"-DHYMN_KERNELS={image}")
    subprocess.run([TREE / "scripts/build", "release", *options, *targets], cwd=TREE, check=True)


def run_tests(tests, number, limit=LONGEST_TESTS):
    """'' when all pass; else what does not, with the first case of it. Nobody waits for a hang for
    longer than is needed, and what hangs ends with its box."""
    programs, cases = tests
    command = [ROOT / "tests/fault/boxed.sh", "ctest", "--test-dir", TREE / "build", "--parallel",
               str(os.cpu_count()), "-R", f"^({programs})$", "-LE", "^full$", "--no-tests=error",
               "--stop-on-failure", "--output-on-failure"]
    environment = {**os.environ, "MUTANT_OF_HYMN": str(number), "GTEST_FILTER": cases}
    if "mpi" not in programs:  # ranks of a job must all go on, or none
        environment["GTEST_FAIL_FAST"] = "1"
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              errors="replace", timeout=limit)
    except subprocess.TimeoutExpired:
        return "the time limit"
    if done.returncode == 0:
        return ""
    failing = re.findall(r"^\s+\d+ - (\S+) \(", done.stdout, re.MULTILINE)
    failed = re.findall(r"(?:\[  FAILED  \]|Failure in) (\w[\w/]*\.[\w/]+)", done.stdout)
    begun = re.findall(r"\[ RUN      \] (\S+)", done.stdout)  # the last one is where it crashed
    return ": ".join(failing[:1] + (failed[:1] or begun[-1:])) or f"ctest's status {done.returncode}"


def limits_of(mutants):
    """How long the tests of each may take: by how long they take without any fault. Those that fail
    even so have none, and find nothing."""
    limits = {}
    for tests in sorted({m.tests for m in mutants}):
        began = time.monotonic()
        failed = run_tests(tests, 0)
        if failed:
            print(f"without any fault these tests fail: {failed} (of {tests[0]})", flush=True)
        else:
            limits[tests] = 3 * (time.monotonic() - began) + 60
    return limits


def run(mutants, numbers):
    chosen = [m for m in mutants if not numbers or m.number in numbers]
    limits = limits_of(chosen)
    rooms = {}
    for mutant in chosen:
        began = time.monotonic()
        limit = limits.get(mutant.tests)
        found = run_tests(mutant.tests, mutant.number, limit) if limit else ""
        rooms.setdefault(mutant.room, []).append(bool(found))
        print(f"{'found' if found else 'LIVES'} {time.monotonic() - began:5.1f} s  {mutant}"
              f"  [{found or mutant.tests[0]}]", flush=True)
    for room, found in sorted(rooms.items()):
        print(f"{room}: {sum(found)} of {len(found)} faults are found")
    alive = sum(found.count(False) for found in rooms.values())
    print(f"{len(chosen) - alive} of {len(chosen)} faults are found, {alive} live")
    sys.exit(alive > MOST_ALIVE * len(chosen))


def main():
    verb, *rest = sys.argv[1:] or ["--help"]
    if verb not in ("list", "check", "build", "run") or (rest and verb in ("list", "check")):
        sys.exit(__doc__)
    mutants = read_mutants()
    if verb == "list":
        print("\n".join(str(mutant) for mutant in mutants))
    elif verb == "check":
        check(mutants)
    elif verb == "build":
        build(mutants, rest)
    else:
        run(mutants, {int(number) for number in rest})


main()
