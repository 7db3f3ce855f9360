#include "tests/mpi/job_runner.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/support/shell.hpp"

namespace hymn::test {

Job::Job() = default;

Job::~Job() {
  if (child_) child_->report();
}

// Each rank is started by a shell, which notes how it ends: mpirun tells that of one of them only.
void Job::start(int ranks, const std::string& command, const std::string& settings) {
  // Where one thread alone may call MPI, a death in the midst of its calls ends the others, too.
  const std::string line = "env HYMN_TUNING=off HYMN_MPI_THREAD_LEVEL=multiple " + settings +
                           " timeout -k 5 90 " HYMN_MPIRUN " --enable-recovery -n " +
                           std::to_string(ranks) + " sh -c '" + command +
                           "; echo $? >\"$0/status${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\"' " +
                           word("") + " 2>&1";
  child_ = std::make_unique<Child>([line] { return run_shell(line).output; });
}

bool Job::wait_for(const std::string& name) const {
  for (int tries = 0; tries < 6000; ++tries) {
    if (has(name)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void Job::write(const std::string& name, const std::string& text) const {
  std::ofstream(folder() / name) << text;
}

std::string Job::read(const std::string& name) const {
  std::ifstream file(folder() / name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Job::output() { return child_->report(); }

int Job::status(int rank) const {
  const std::string text = read("status" + std::to_string(rank));
  return text.empty() ? -1 : std::atoi(text.c_str());
}

}  // namespace hymn::test
