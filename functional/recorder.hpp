// Keeps what a thread calls while it is captured.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "hymn/call_observer.hpp"
#include "hymn/capture.hpp"

namespace hymn::functional::detail {

class Flight;
class Storage;

class Recorder final : private CallObserver {
 public:
  /// Of this thread; null: nothing is captured.
  static Recorder* current();

  /// From now on all calls of this thread, until it goes.
  Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() override;

  void add_input(const Array& array) { add_value(array, true); }
  void record_collective(const Collective& collective, std::span<const Array> inputs,
                         std::span<const Array> outputs, const Where& where);
  void record_wait(const Flight& flight);
  void record_copy(const Array& from, const Array& to);
  void record_step(std::string_view name, std::span<const Array> inputs, const Array& result,
                   const Step& step);
  /// The program has written there itself: what is there from now on comes from no call.
  void forget(const Storage& storage) { known_.erase(&storage); }

  /// What the program gives: these arrays.
  void give(std::span<const Array> outputs);
  /// What it has made and nothing in it takes.
  void give_the_rest();
  Captured take() { return std::move(captured_); }

 private:
  /// A value, and how it lies in the memory, which stays so long that no other has its address.
  struct Known {
    Array array;
    std::size_t value;
  };

  // In record_calls.cpp: of ProcessGroup.
  void called(const ObservedCall& call) override;
  void waits(std::uint64_t work) override;
  void record_request(const Request& request, const ProgramGroup& group, std::size_t following);

  std::size_t add_value(ArraySpec spec, bool is_input);
  std::size_t add_value(const Array& array, bool is_input);
  /// Of an array: what made it, a view of that, or another input.
  std::size_t value_of(const Array& array);
  std::vector<std::size_t> values_of(std::span<const Array> arrays);
  std::size_t group_of(const ProgramGroup& group);
  ProgramNode& add_node(NodeKind kind, std::vector<std::size_t> inputs);

  Captured captured_;
  std::map<const Storage*, std::vector<Known>> known_;
  std::map<const Flight*, std::size_t> flights_;               // of a node
  std::map<std::uint64_t, std::vector<std::size_t>> works_{};  // and of calls in flight
};

/// While it lives nothing of this thread is captured.
class NotRecorded {
 public:
  NotRecorded();
  ~NotRecorded();
  NotRecorded(const NotRecorded&) = delete;
  NotRecorded& operator=(const NotRecorded&) = delete;

 private:
  Recorder* recorder_;
};

/// While it lives calls of this thread are of the backward pass.
class Backward {
 public:
  Backward();
  ~Backward();
  Backward(const Backward&) = delete;
  Backward& operator=(const Backward&) = delete;

 private:
  bool before_;
};

}  // namespace hymn::functional::detail
