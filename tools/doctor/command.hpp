// `hymn doctor`
#pragma once

#include <cstdint>

namespace CLI {
class App;
}

namespace hymn {

struct DoctorArguments {
  bool json = false;
  bool verbose = false;
  bool start_mpi = false;  ///< although launcher and library do not seem to fit
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;
};

void declare_doctor_arguments(CLI::App& app, DoctorArguments& arguments);

/// Looks at the job that this process is part of; docs/doctor.md tells for what. Collective. The
/// exit code is the same on all ranks: 0, 3 for warnings, 4 for errors.
int doctor_command(const DoctorArguments& arguments);

}  // namespace hymn
