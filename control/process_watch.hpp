// Sees other processes of this host end, in the moment they do.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "control/process_state.hpp"

namespace hymn {

/// Calls, and the handler, are made on the one thread that runs the io_context.
class ProcessWatch {
 public:
  using Ended = std::function<void(int number, const std::string& how)>;
  /// `ended` is called once for each number of watch() when that process has ended; `how` as
  /// how_it_ended().
  ProcessWatch(asio::io_context& io, Ended ended);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  /// Watches the process with this id, as it is seen here, which must be the one meant: ids are
  /// used again. False where there is none, or the system cannot watch it.
  bool watch(int number, int pid);

 private:
  std::shared_ptr<std::map<int, asio::posix::stream_descriptor>> watched_;
  asio::io_context& io_;
  Ended ended_;
};

}  // namespace hymn
