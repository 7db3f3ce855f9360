#include "runtime/world/own_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "base/company_watch.hpp"
#include "p2p/mpi/mpi_types.hpp"
#include "runtime/group/works_in_flight.hpp"
#include "runtime/mechanisms/mpi_session.hpp"
#include "runtime/rank/some_names.hpp"

namespace hymn {
namespace {

/// What a rank does with MPI until it has the duplicate, one after the other. The barrier comes
/// first, for a duplication that some rank does not come to would keep MPI from making any other
/// communicator.
struct Attempt {
  enum class Stage : unsigned char { begins, arrives, duplicates };

  explicit Attempt(MPI_Comm communicator) : of(communicator) {}
  MPI_Comm of;
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  Stage stage = Stage::begins;
};

/// Those that were given up. They stay in flight, for MPI cannot take them back, and the others may
/// have come to them: whoever tries again goes on with its own. While there are any, the end of the
/// process does not finalize MPI, which would wait for them.
class GivenUp {
 public:
  std::unique_ptr<Attempt> take_or_begin(MPI_Comm communicator) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(attempts_, communicator, &Attempt::of);
    if (found == attempts_.end()) return std::make_unique<Attempt>(communicator);
    std::unique_ptr<Attempt> taken = std::move(*found);
    attempts_.erase(found);
    release_finalize(true);
    return taken;
  }
  void keep(std::unique_ptr<Attempt> attempt) {
    hold_finalize();
    const std::lock_guard lock(mutex_);
    attempts_.push_back(std::move(attempt));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Attempt>> attempts_;
};

GivenUp& given_up() {
  static auto* only = new GivenUp();
  return *only;
}

/// Of the ranks of a communicator.
EarlySight sight_of(MPI_Comm communicator) {
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Group all = MPI_GROUP_NULL;
  check_mpi(PMPI_Comm_group(communicator, &members), "MPI_Comm_group");
  check_mpi(PMPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
  int count = 0;
  int size = 0;
  check_mpi(PMPI_Group_size(members, &count), "MPI_Group_size");
  check_mpi(PMPI_Group_size(all, &size), "MPI_Group_size");
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> launched(ranks.size());
  check_mpi(PMPI_Group_translate_ranks(members, count, ranks.data(), all, launched.data()),
            "MPI_Group_translate_ranks");
  PMPI_Group_free(&members);
  PMPI_Group_free(&all);
  return EarlySight(std::move(launched), size);
}

/// MPI does not tell who has not come: that is known only of those who can be seen not to move.
std::shared_ptr<LongWait> long_wait_of(int rank, const Company& company, const Config& config) {
  if (config.wait_report.is_none()) return nullptr;
  return std::make_shared<LongWait>(
      config.wait_report, steady_clock(),
      [rank, &company, logger = Logger(config.log_level, rank)](std::span<const int>,
                                                                Duration waited, bool) {
        std::vector<std::string> known;
        for (const int other : company.ranks)
          if (std::string words = company.tell_of(other); !words.empty())
            known.push_back(std::move(words));
        const std::string more = known.empty() ? "" : "; " + some_of(std::move(known));
        const std::string text = fmt::format(
            "making the world has waited {:.1f} s on rank {}: not all ranks have arrived{}",
            std::chrono::duration<double>(waited).count(), rank, more);
        logger.warning(text, !LongWait::is_speaker(static_cast<std::size_t>(rank)));
      });
}

/// The wait for all ranks of a communicator.
class WaitForRanks {
 public:
  WaitForRanks(MPI_Comm communicator, MpiGate& gate, Timeout limit,
               std::shared_ptr<EarlySight>& early, const Config& config)
      : gate_(gate) {
    {
      const MpiGate::Entry entry(gate);
      int is_inter = 0;
      check_mpi(PMPI_Comm_test_inter(communicator, &is_inter), "MPI_Comm_test_inter");
      if (is_inter != 0)
        throw UsageError("a world cannot be made from an inter-communicator",
                         {.remedy = "merge it with MPI_Intercomm_merge first"});
      early = std::make_shared<EarlySight>(sight_of(communicator));
      check_mpi(PMPI_Comm_rank(communicator, &rank_), "MPI_Comm_rank");
      int size = 0;
      check_mpi(PMPI_Comm_size(communicator, &size), "MPI_Comm_size");
      company_.ranks.resize(static_cast<std::size_t>(size));
    }
    std::iota(company_.ranks.begin(), company_.ranks.end(), 0);
    company_.is_hopeless = [early](int other) { return early->has_ended(other); };
    company_.tell_of = [early](int other) { return early->tell_of(other); };
    patience_.deadline = Deadline::after(limit);
    patience_.purpose = "making the world";
    // Others may wait for what this rank has in flight in another world before they come.
    patience_.meanwhile = [] { WorksInFlight::step_all_here(); };
    patience_.watch = CompanyWatch(company_, patience_.purpose, {});
    patience_.long_wait = long_wait_of(rank_, company_, config);
  }
  WaitForRanks(const WaitForRanks&) = delete;
  WaitForRanks& operator=(const WaitForRanks&) = delete;

  void until_done(MPI_Request& request) {
    PatientWait wait(patience_);
    const auto has_come = [&] {
      const MpiGate::Entry entry(gate_);
      int done = 0;
      check_mpi(PMPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      return done != 0;
    };
    if (wait.until(has_come)) return;
    throw with_known(
        TimeoutError(fmt::format("making the world: not all ranks have arrived within {:.3f} s",
                                 std::chrono::duration<double>(wait.waited()).count()),
                     wait.waited(),
                     {.remedy = "make a World on every rank of the communicator, or allow more "
                                "time (HYMN_INIT_TIMEOUT)"}),
        company_);
  }

 private:
  MpiGate& gate_;
  int rank_ = 0;
  Company company_;
  Patience patience_;
};

void arrive(Attempt& attempt, MpiGate& gate) {
  const MpiGate::Entry entry(gate);
  check_mpi(PMPI_Ibarrier(attempt.of, &attempt.request), "MPI_Ibarrier");
  attempt.stage = Attempt::Stage::arrives;
}

void duplicate(Attempt& attempt, MpiGate& gate) {
  const MpiGate::Entry entry(gate);
  check_mpi(PMPI_Comm_idup(attempt.of, &attempt.own, &attempt.request), "MPI_Comm_idup");
  attempt.stage = Attempt::Stage::duplicates;
}

}  // namespace

MPI_Comm own_communicator(MPI_Comm communicator, MpiGate& gate, Timeout limit,
                          std::shared_ptr<EarlySight>& early, const Config& config) {
  WaitForRanks wait(communicator, gate, limit, early, config);
  std::unique_ptr<Attempt> attempt = given_up().take_or_begin(communicator);
  try {
    if (attempt->stage == Attempt::Stage::begins) arrive(*attempt, gate);
    if (attempt->stage == Attempt::Stage::arrives) {
      wait.until_done(attempt->request);
      duplicate(*attempt, gate);
    }
    wait.until_done(attempt->request);
  } catch (...) {
    given_up().keep(std::move(attempt));
    throw;
  }
  const MpiGate::Entry entry(gate);
  check_mpi(PMPI_Comm_set_errhandler(attempt->own, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return attempt->own;
}

}  // namespace hymn
