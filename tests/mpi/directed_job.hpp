// What jobs share whose director, a test, starts them, looks at them while they run, and tells them
// to go on, all by files in one folder (job_runner.hpp is the director's side).
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

namespace hymn::test {

inline std::filesystem::path folder;

/// Complete as soon as it can be seen.
inline void write_file(const std::string& name, int number) {
  const std::filesystem::path temporary = folder / ("." + name);
  std::ofstream(temporary) << number;
  std::filesystem::rename(temporary, folder / name);
}

/// FOLDER/pid0, FOLDER/pid1 … tell the processes.
inline void write_pid(int rank) {
  write_file("pid" + std::to_string(rank), static_cast<int>(getpid()));
}

/// Until the file is there.
inline void wait_for(const std::string& name) {
  while (!std::filesystem::exists(folder / name))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

/// main() of `job WHAT FOLDER`; what `run` returns is the status, and 3 stands for an exception.
inline int run_directed(int argc, char** argv, const std::function<int(const std::string&)>& run) {
  if (argc != 3) return 2;
  folder = argv[2];
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 3;
  }
}

}  // namespace hymn::test
