// What stands behind a Join: who takes part, who still has input, and how the scope is left.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "hymn/join.hpp"

namespace hymn::detail {

class JoinState {
 public:
  JoinState(std::vector<Joinable*> joinables, JoinOptions options);
  /// `site`: where the call returns to in the user's code.
  void run(const std::function<void()>& body, const void* site);
  JoinStatus status() const;
  void notify(const Joinable& joinable, const void* site);
  int divisor(const Joinable& joinable) const;
  int acting_root(const Joinable& joinable, int preferred) const;

 private:
  /// A joinable in this run. Without a hook where this rank is not in its group.
  struct Part {
    Joinable* joinable;
    ProcessGroup group;
    std::unique_ptr<JoinHook> hook{};
  };
  /// The joinables know this join as long as it lives.
  class Attachment;

  const ProcessGroup& group() const { return parts_.front().group; }
  std::vector<ProcessGroup> groups() const;
  std::vector<Part> look_up() const;
  void require_free(const std::vector<Part>& parts) const;
  void require_within(const std::vector<Part>& parts) const;
  void begin();
  void close();
  /// When all have run out: whether no rank of this group had more input than this one.
  bool is_last_joiner(const ProcessGroup& among) const;
  /// Meets the others for the next iteration; the number of those that still have input.
  int count(bool has_input);
  void note_joined(int active, bool has_input);
  /// A collective of the join's own, which is recorded as called where the user called the join.
  void meet(const Request& request) const;
  [[noreturn]] void terminate_early(bool has_input);
  /// All ranks throw this here, so that nobody is out of step.
  template <class Failure>
  [[noreturn]] void throw_in_step(const Failure& failure);
  ErrorContext context(std::string remedy) const;

  const std::vector<Joinable*> joinables_;
  const JoinOptions options_;
  std::vector<Part> parts_;
  const void* site_ = nullptr;
  bool closing_ = false;
  std::exception_ptr thrown_in_step_;
  mutable std::mutex mutex_;
  JoinStatus status_;  // written under the mutex by the thread that runs, which reads it without
};

}  // namespace hymn::detail
