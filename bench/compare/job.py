"""A job of one peer: its launcher, the pipes to its ranks, and its turns.

Only one job works at a time. The ranks of the others sleep in read(), see protocol.h.
"""

import os
import pathlib
import select
import signal
import struct
import subprocess
import tempfile
import time

from cases import COLLECTIVES

COMMAND = struct.Struct("=IIIIIIQQ")
ANSWER = struct.Struct("=IIIId96s")
GOOD, WRONG_RESULT, NOT_OFFERED = range(3)
MEETING_BYTES = 4096
STOP_SECONDS = 10
MOST_SECONDS_TO_SPEAK = 2
KILL_SECONDS = 3
MOST_SAID_BYTES = 1 << 20


class JobError(Exception):
    """The job has ended or hangs; it cannot be used any more."""


class WrongResult(Exception):
    """A result was not what it should be."""


class Job:
    def __init__(self, peer, layout, options):
        self.peer = peer
        self.layout = layout
        self.limit = options.limit
        self.rotate_root = options.root == "rotating"
        self.processes = {}
        self.version = ""
        self.commands = []
        self.results = -1
        self.launcher = None
        self.output = tempfile.TemporaryFile()
        try:
            self._start(options)
        except BaseException:
            self.kill()
            raise

    def _start(self, options):
        pipes = [os.pipe() for _ in range(self.layout.ranks)]
        self.commands = [write for _, write in pipes]
        self.results, results = os.pipe()
        meeting = os.memfd_create("meeting")
        os.truncate(meeting, MEETING_BYTES)
        settings = (
            f"{os.getpid()} results={results} meeting={meeting} share={int(self.layout.share)} "
            f"huge={int(options.pages == 'huge')} offset={options.offset} limit={self.limit} "
            f"cache={options.cache_bytes // self.layout.ranks}"
        )
        binding = "bind" if self.layout.bound else "share"
        arguments = [
            settings,
            ",".join(str(read) for read, _ in pipes),
            f"{binding}:" + ",".join(str(core) for core in self.layout.cores),
        ]
        try:
            self.launcher = subprocess.Popen(
                self.peer.command(self.layout) + arguments,
                env=self.peer.environment(self.layout),
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            for rank, process, state, _, _, text in self._answers():
                self.processes[rank] = process
                self.version = " ".join(text.replace("Version:", " ").split())
            if options.nice:
                self._set_priority(options.nice)
        finally:
            # From now on the ranks alone hold these ends: when they are gone the pipes tell.
            for descriptor in [read for read, _ in pipes] + [results, meeting]:
                os.close(descriptor)

    def _set_priority(self, nice):
        """For machines that do other things, too. A rank that waits for its turn only sleeps."""
        for process in self.processes.values():
            os.setpriority(os.PRIO_PROCESS, process, nice)
            # Where sessions are scheduled as groups, what counts is the group's.
            group = pathlib.Path(f"/proc/{process}/autogroup")
            if group.exists():
                group.write_text(str(nice))

    def ask(self, case, calls, check_all=False):
        """Runs a block of calls: (microseconds of one on the slowest rank, calls in a row).

        None: this peer has no such collective.
        """
        command = COMMAND.pack(
            COLLECTIVES.index(case.collective),
            case.place == "in",
            case.temperature == "cold",
            check_all,
            self.rotate_root,
            0,
            case.size,
            calls,
        )
        try:
            for pipe in self.commands:
                os.write(pipe, command)
        except BrokenPipeError:
            pass  # _answers() finds out who has ended
        answers = self._answers()
        for rank, _, state, _, _, text in answers:
            if state == NOT_OFFERED:
                return None
            if state == WRONG_RESULT:
                raise WrongResult(f"{self.peer.name}: rank {rank}: {text}")
        return max(us for _, _, _, _, us, _ in answers), answers[0][3]

    def _answers(self):
        """One answer of each rank."""
        answers = []
        deadline = time.monotonic() + self.limit
        while len(answers) < self.layout.ranks:
            ready, _, _ = select.select([self.results], [], [], 0.2)
            if ready:
                data = os.read(self.results, ANSWER.size)
                if len(data) == ANSWER.size:
                    *numbers, text = ANSWER.unpack(data)
                    answers.append((*numbers, text.split(b"\0")[0].decode(errors="replace")))
                    continue
                raise JobError(f"{self.peer.name}: its ranks have ended{self._said()}")
            if self.launcher.poll() is not None:
                raise JobError(
                    f"{self.peer.name}: its launcher ended with {self.launcher.returncode}"
                    f"{self._said()}"
                )
            if time.monotonic() > deadline:
                raise JobError(
                    f"{self.peer.name}: {len(answers)} of {self.layout.ranks} ranks answered "
                    f"within {self.limit} s{self._said()}"
                )
        return answers

    def _said(self):
        # The launcher may be about to say why.
        try:
            self.launcher.wait(MOST_SECONDS_TO_SPEAK)
        except subprocess.TimeoutExpired:
            pass
        # The launcher writes where this file stands, so it must not be moved.
        said = os.pread(self.output.fileno(), MOST_SAID_BYTES, 0)
        lines = said.decode(errors="replace").strip().splitlines()
        return "".join(f"\n    {line}" for line in lines[-12:])

    def stop(self):
        """Lets the ranks end by themselves; kills what does not."""
        self._hang_up()
        try:
            self.launcher.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"compare: {self.peer.name} does not end; killed", flush=True)
        self.kill()

    def kill(self):
        """Ends whatever is left of the job."""
        self._hang_up()
        if self.launcher is not None:
            self.launcher.terminate()
            try:
                self.launcher.wait(KILL_SECONDS)
            except subprocess.TimeoutExpired:
                self._kill_launcher()
            for process in self.processes.values():
                self._kill_rank(process)
        if self.results >= 0:
            os.close(self.results)
            self.results = -1
        self.output.close()

    def _kill_launcher(self):
        try:
            os.killpg(self.launcher.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.launcher.wait()

    def _kill_rank(self, process):
        # Launchers give ranks process groups of their own. The number may be another's by now.
        try:
            running = pathlib.Path(f"/proc/{process}/exe").readlink()
            if running == pathlib.Path(self.peer.driver).resolve():
                os.kill(process, signal.SIGKILL)
        except OSError:
            pass

    def _hang_up(self):
        for pipe in self.commands:
            os.close(pipe)
        self.commands = []
