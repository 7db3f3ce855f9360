// Talks by plain MPI: hymn itself may be what does not work.
#include "tools/doctor/job.hpp"

#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "hymn/error.hpp"
#include "hymn/world.hpp"
#include "p2p/mpi/mpi_channel.hpp"
#include "runtime/world/world_facts.hpp"
#include "tools/doctor/gather.hpp"
#include "tools/doctor/wire.hpp"

namespace hymn {

struct DoctorJob::Communicators {
  MPI_Comm all = MPI_COMM_NULL;
  MPI_Comm host = MPI_COMM_NULL;
};

DoctorJob::DoctorJob() : communicators_(std::make_unique<Communicators>()) {
  auto& [all, host] = *communicators_;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &all), "MPI_Comm_dup");
  check_mpi(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  MPI_Comm_rank(all, &rank_);
  MPI_Comm_size(all, &size_);
  MPI_Comm_rank(host, &local_rank_);
  MPI_Comm_size(host, &local_size_);
}

DoctorJob::~DoctorJob() {
  MPI_Comm_free(&communicators_->host);
  MPI_Comm_free(&communicators_->all);
}

int DoctorJob::share(int value) {
  check_mpi(MPI_Bcast(&value, 1, MPI_INT, 0, communicators_->all), "MPI_Bcast");
  return value;
}

void DoctorJob::wait_for_all() { check_mpi(MPI_Barrier(communicators_->all), "MPI_Barrier"); }

void DoctorJob::send_to_first(const std::string& text) {
  check_mpi(
      MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, 0, communicators_->all),
      "MPI_Send");
}

std::string DoctorJob::receive_from(int rank) {
  MPI_Status status;
  int length = 0;
  check_mpi(MPI_Probe(rank, 0, communicators_->all, &status), "MPI_Probe");
  check_mpi(MPI_Get_count(&status, MPI_CHAR, &length), "MPI_Get_count");
  std::string text(static_cast<std::size_t>(length), '\0');
  check_mpi(
      MPI_Recv(text.data(), length, MPI_CHAR, rank, 0, communicators_->all, MPI_STATUS_IGNORE),
      "MPI_Recv");
  return text;
}

// Whether hymn works in this job, as this rank sees it, and which GPU it gives to the rank.
void DoctorJob::try_world(RankFacts& mine) {
  int all_read = mine.settings_problem.empty() ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all_read, 1, MPI_INT, MPI_MIN, communicators_->all),
            "MPI_Allreduce");
  if (all_read == 0) return;  // ranks that can read theirs would wait for the others
  try {
    World world({.timeout = std::chrono::seconds(60)});
    const JobMap& map = job_map_of(world);
    // GPUs that only a file tells of are not looked at.
    const bool is_real = !mine.environment.contains("HYMN_TOPOLOGY_FILE");
    if (const int gpu = map.place().gpu; gpu >= 0 && is_real)
      mine.used_gpu = gpu_id(map.machine().gpus[static_cast<std::size_t>(gpu)]);
    std::vector<int> sum{1};
    world.group().all_reduce(sum);
    world.destroy();
    if (sum[0] != size_)
      mine.world_problem = fmt::format("all_reduce over {} ranks gave {}", size_, sum[0]);
  } catch (const Error& error) {
    // Without the rank, so that what all ranks say is told once.
    const std::string& remedy = error.context().remedy;
    mine.world_problem = error.problem() + (remedy.empty() ? "" : " (" + remedy + ")");
  } catch (const std::exception& error) {
    mine.world_problem = error.what();
  }
}

JobFacts DoctorJob::gather(ThreadLevel granted, std::uint64_t segment_bytes) {
  RankFacts mine = gather_rank(rank_, granted);
  for (int turn = 0; turn < local_size_; ++turn) {
    if (turn == local_rank_) gather_segment(segment_bytes, mine);
    check_mpi(MPI_Barrier(communicators_->host), "MPI_Barrier");
  }
  wait_for_all();  // so that clocks are read at about the same time
  std::string host;
  if (local_rank_ == 0) host = to_wire(gather_host(local_size_, mine));
  try_world(mine);

  int leader = rank_;
  check_mpi(MPI_Bcast(&leader, 1, MPI_INT, 0, communicators_->host), "MPI_Bcast");
  mine.host = leader;  // until rank 0 knows how many hosts there are
  JobFacts job;
  job.segment_bytes = segment_bytes;
  if (rank_ != 0) {
    send_to_first(to_wire(mine));
    if (local_rank_ == 0) send_to_first(host);
    return job;
  }
  std::map<int, int> host_of;  // leader
  for (int rank = 0; rank < size_; ++rank) {
    RankFacts facts = rank == 0 ? mine : rank_from_wire(receive_from(rank));
    if (facts.host == rank) {
      host_of[rank] = static_cast<int>(job.hosts.size());
      job.hosts.push_back(host_from_wire(rank == 0 ? host : receive_from(rank)));
    }
    facts.host = host_of.at(facts.host);
    job.ranks.push_back(std::move(facts));
  }
  return job;
}

}  // namespace hymn
