// The memory of arrays, and the calls in flight that fill it.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hymn/array.hpp"
#include "hymn/work.hpp"

namespace hymn::functional::detail {

/// Never frees it: calls that have failed may still read and write there, whoever carries them
/// (docs/errors.md). Any thread may call.
void leave_behind(std::vector<std::shared_ptr<void>> memory);

/// A call in flight, with all memory that it reads and writes. What comes out of it holds it; the
/// last to let go waits for it, as its memory must stay until then.
class Flight {
 public:
  Flight(int rank, std::string operation) : rank_(rank), operation_(std::move(operation)) {}
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  ~Flight();

  void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }
  /// What is still to be done, by who waits, when the data is there.
  void then(std::function<void()> finish) { finishes_.push_back(std::move(finish)); }
  void start(Work work) { work_ = std::move(work); }

  /// Nobody will know when its memory is not used any more: it is not freed.
  void give_memory_up();

  /// The first call waits, and all throw the error if there is one.
  void wait();
  bool is_over() const;

 private:
  void end();
  void wait_at_the_end();

  int rank_;
  std::string operation_;
  int exceptions_ = std::uncaught_exceptions();
  mutable std::mutex mutex_;
  bool over_ = false;
  std::exception_ptr error_;
  Work work_;
  std::vector<std::function<void()>> finishes_;
  std::vector<std::shared_ptr<void>> kept_;
};

/// Memory that arrays share.
class Storage {
 public:
  /// Of its own, and not set.
  static std::shared_ptr<Storage> of_bytes(std::size_t bytes);
  static std::shared_ptr<Storage> of_meta();
  Storage(std::byte* data, MemoryKind memory, std::shared_ptr<void> owner)
      : data_(data), memory_(memory), owner_(std::move(owner)) {}

  bool is_meta() const { return is_meta_; }
  bool is_read_only() const { return is_read_only_; }
  void make_read_only() { is_read_only_ = true; }
  MemoryKind memory() const { return memory_; }
  /// Without waiting.
  std::byte* data() const { return data_; }
  const std::shared_ptr<void>& owner() const { return owner_; }

  const std::shared_ptr<Flight>& flight() const { return flight_; }
  void comes_from(std::shared_ptr<Flight> flight) { flight_ = std::move(flight); }

 private:
  std::byte* data_ = nullptr;
  MemoryKind memory_ = MemoryKind::host;
  std::shared_ptr<void> owner_;
  bool is_meta_ = false;
  bool is_read_only_ = false;
  std::shared_ptr<Flight> flight_;
};

}  // namespace hymn::functional::detail
