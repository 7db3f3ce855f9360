// Every kind of finding: its severity, what it leads to, what to do. docs/doctor.md has the same
// list.
#include <array>

#include "tools/doctor/findings.hpp"

namespace hymn {
namespace {

constexpr std::array kinds = {
    FindingKind{"launcher.mismatch", Severity::error,
                "MPI_Init ends the tasks, or leaves each alone in a world of its own",
                "Open MPI: srun --mpi=pmix; MPICH and its relatives: srun --mpi=pmi2 (srun "
                "--mpi=list shows what there is); or the MPI library's own mpirun inside salloc "
                "or sbatch"},
    FindingKind{"launcher.singletons", Severity::error,
                "each task computes the whole job alone, and all write the same results",
                "start with the mpirun of the MPI library that the program is linked with; under "
                "Slurm with srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH)"},
    FindingKind{"mpi.not-started", Severity::error, "no program that uses this MPI will start",
                "see MPI's own words above; try a program that only calls MPI_Init, and make sure "
                "that mpirun and the MPI library come from one installation"},
    FindingKind{"mpi.differs", Severity::error,
                "ranks with different MPI libraries do not find each other, or misread each "
                "other's messages",
                "make PATH and LD_LIBRARY_PATH lead to one MPI installation on all hosts"},
    FindingKind{"mpi.progress-thread", Severity::error,
                "a World with a progress thread cannot be made: it needs MPI_THREAD_MULTIPLE",
                "unset HYMN_PROGRESS_THREAD, ask for HYMN_MPI_THREAD_LEVEL=multiple, or use an MPI "
                "library that grants it"},
    FindingKind{"mpi.thread-level", Severity::warning,
                "fewer threads of the application may call hymn than was asked for",
                "use an MPI library built with thread support, or ask for less with "
                "HYMN_MPI_THREAD_LEVEL"},
    FindingKind{"hymn.settings", Severity::error,
                "making a World throws ConfigError on these ranks",
                "correct or unset the variable; `hymn info` lists all of them"},
    FindingKind{"hymn.differs", Severity::error,
                "ranks with different versions of hymn misread each other",
                "install one version on all hosts; look at PATH and LD_LIBRARY_PATH"},
    FindingKind{"hymn.world", Severity::error, "no program that uses hymn will run in this job",
                "remove the other errors first; then see the text"},
    FindingKind{
        "environment.hymn", Severity::warning,
        "ranks choose different paths or time limits: making a group fails, or an operation "
        "ends on some ranks only",
        "give the variable to all ranks: mpirun -x NAME, srun --export=ALL"},
    FindingKind{"environment.transport", Severity::warning,
                "ranks set up their connections differently: slow, or they do not connect at all",
                "give the variable to all ranks: mpirun -x NAME (--mca for Open MPI), srun "
                "--export=ALL"},
    FindingKind{"environment.rank", Severity::note,
                "these ranks behave differently from the others",
                "nothing, if it is meant to be so; else give the variable to all ranks"},
    FindingKind{"cpus.same-core", Severity::warning,
                "ranks take turns on a core while others stand idle; waiting for each other they "
                "lose whole time slices",
                "bind ranks to cores of their own: mpirun --bind-to core, srun --cpu-bind=cores; "
                "look for a taskset or a cpuset around the launcher"},
    FindingKind{"cpus.oversubscribed", Severity::warning,
                "ranks take turns on the cores; an operation takes time slices, not microseconds",
                "start fewer ranks on the host, or grant the job more cores"},
    FindingKind{"cpus.threads", Severity::warning,
                "the threads of OpenMP crowd each other off the cores",
                "OMP_NUM_THREADS = cores / ranks of the host, and bind each rank to its share: "
                "mpirun --map-by slot:pe=N, srun --cpus-per-task=N"},
    FindingKind{"cpus.unbound", Severity::note,
                "the kernel may move ranks away from their memory and caches, and OpenMP starts a "
                "thread for each core on each rank",
                "mpirun --bind-to core (or numa), srun --cpu-bind=cores, or HYMN_BIND=core"},
    FindingKind{"cpus.narrow", Severity::note, "the ranks cannot use the rest of the host",
                "nothing, if the job is meant to have no more; else look at taskset, the cpuset of "
                "the container, and what the batch system was asked for"},
    FindingKind{"memory.segment", Severity::error,
                "the segments through which ranks share memory fail",
                "free memory, raise the memory limit of the job or container, or the limit that "
                "the text names (ulimit -a)"},
    FindingKind{"memory.short", Severity::warning,
                "when all ranks use what they ask for, the kernel kills one of them",
                "start fewer ranks on the host, or raise the memory limit of the job or container"},
    FindingKind{"memory.shm", Severity::error,
                "MPI falls back on slow ways between ranks of the host, or a rank dies of SIGBUS; "
                "NCCL fails to start",
                "enlarge /dev/shm: docker run --shm-size=1g, a memory volume at /dev/shm in "
                "Kubernetes, mount -o remount,size=…; or remove stale files from it"},
    FindingKind{"memory.limit", Severity::note, "the job may use less than the host's memory",
                "nothing, if it is enough; else raise memory.max, or what the batch system was "
                "asked for"},
    FindingKind{"memory.huge-pages", Severity::note, "large buffers cost more misses of the TLB",
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"},
    FindingKind{"files.stale-fill", Severity::warning, "new jobs find too little room in /dev/shm",
                "remove the files when no job of yours runs on the host"},
    FindingKind{"files.stale", Severity::note, "they take memory or disk space that nobody uses",
                "remove them when no job of yours runs on the host"},
    FindingKind{"network.only-loopback", Severity::error,
                "no other host can reach the ranks of this one",
                "bring the interface up, or give the container the host's network"},
    FindingKind{"network.address-repeated", Severity::warning,
                "a connection to that address ends on the wrong host: jobs hang when they start",
                "name the interface to use: OMPI_MCA_btl_tcp_if_include and "
                "OMPI_MCA_oob_tcp_if_include, NCCL_SOCKET_IFNAME"},
    FindingKind{"network.name-loopback", Severity::warning,
                "programs that tell others this host's name send them to themselves",
                "correct /etc/hosts: the host's name belongs to the address that others see"},
    FindingKind{"network.name-unknown", Severity::warning,
                "programs that look up this host by name wait for the name server, or fail",
                "add the host's name to /etc/hosts or to the name server"},
    FindingKind{"network.many-interfaces", Severity::note,
                "MPI spreads its connections over all of them, and waits for those that do not "
                "lead to the other hosts",
                "if jobs hang or are slow: OMPI_MCA_btl_tcp_if_include=NAME, UCX_NET_DEVICES=NAME, "
                "NCCL_SOCKET_IFNAME=NAME"},
    FindingKind{"gpu.driver-old", Severity::error,
                "every call of the CUDA runtime fails with cudaErrorInsufficientDriver",
                "update the driver, or use a CUDA runtime of the driver's major version"},
    FindingKind{"gpu.copy-failed", Severity::error, "programs that copy between these GPUs fail",
                "look at dmesg for Xid messages and at the compute mode (nvidia-smi -q); "
                "NCCL_P2P_DISABLE=1 keeps NCCL off this way"},
    FindingKind{"gpu.copy-wrong", Severity::error,
                "results that travel between these GPUs are wrong",
                "turn PCIe access control (ACS) and the IOMMU off, or pass the GPUs through "
                "properly; until then NCCL_P2P_DISABLE=1"},
    FindingKind{"gpu.nccl-differs", Severity::error,
                "NCCL refuses to connect ranks of different versions",
                "install one version on all hosts; look at LD_LIBRARY_PATH"},
    FindingKind{"gpu.shared", Severity::warning,
                "ranks take turns on a GPU and share its memory; NCCL refuses two ranks on one GPU",
                "start one rank for each GPU, or give ranks other GPUs with HYMN_GPU or "
                "CUDA_VISIBLE_DEVICES"},
    FindingKind{"gpu.missing", Severity::warning,
                "the ranks without a GPU cannot take part in operations on GPU memory",
                "start as many ranks on each host as it has GPUs, and look at CUDA_VISIBLE_DEVICES "
                "and the device files in the container"},
    FindingKind{"gpu.hidden", Severity::warning,
                "a rank cannot ask whether it reaches the GPUs of its neighbours directly, so data "
                "may go through host memory",
                "let all ranks of a host see all GPUs that they use together, and choose with "
                "HYMN_GPU or by locality"},
    FindingKind{"gpu.driver-differs", Severity::warning,
                "what works on one host may fail on another", "install one driver on all hosts"},
    FindingKind{"gpu.nccl-missing", Severity::warning,
                "operations on GPU memory cannot go through NCCL",
                "install NCCL, or let LD_LIBRARY_PATH lead to libnccl.so.2"},
    FindingKind{"gpu.no-peer-access", Severity::note,
                "data between these GPUs goes through host memory",
                "nothing, if the machine is made so; else look at nvidia-smi topo -p2p r, the "
                "IOMMU and the virtual machine's settings"},
    FindingKind{"limits.open-files", Severity::warning,
                "a large job runs out of descriptors when its ranks connect",
                "ulimit -n, LimitNOFILE= of the batch system's service, docker run --ulimit "
                "nofile=…"},
    FindingKind{"limits.processes", Severity::warning,
                "threads cannot be started, and MPI_Init may fail",
                "ulimit -u, LimitNPROC= of the batch system's service"},
    FindingKind{"limits.locked-memory", Severity::warning,
                "the RDMA adapters cannot register buffers: MPI falls back on TCP or fails",
                "ulimit -l unlimited, LimitMEMLOCK=infinity of the batch system's service, docker "
                "run --ulimit memlock=-1"},
    FindingKind{"clock.skew", Severity::note, "logs of different hosts cannot be put in order",
                "let chrony or ntpd set the clocks"},
    FindingKind{"doctor.incomplete", Severity::warning, "what could not be looked at may be wrong",
                "see the text"},
};

}  // namespace

std::span<const FindingKind> finding_kinds() { return kinds; }

}  // namespace hymn
