// What is recorded of requests that a call waits for, looks at, or frees.
#pragma once

#include <optional>
#include <vector>

#include "preload/recorded_call.hpp"

namespace hymn::preload {

class RecordedRequest : public RecordedCall {
 public:
  /// `asked`: the requests that looking() is told of, as they were before MPI has answered; null:
  /// it has not yet.
  RecordedRequest(Session& session, Call call, const void* site, const MPI_Request* asked = nullptr)
      : RecordedCall(session, call, site), asked_(asked) {}

  /// Waits for all of these, or ends some of them; frees one.
  RecordedRequest& waiting(int count, const MPI_Request* requests);
  RecordedRequest& looking(int count, const MPI_Request* requests);
  RecordedRequest& freeing(const MPI_Request* request);
  /// What MPI says of those that it has looked at: whether it has ended all, which one, or which of
  /// them.
  RecordedRequest& all_if(const int* flag);
  RecordedRequest& one_of(const int* index);
  RecordedRequest& some_of(const int* count, const int* indices);
  /// It waits for some of them.
  RecordedRequest& blocking();

  void start() { begin_outer(); }
  void end(int code);

 private:
  struct Watched {
    int index = 0;
    Requests::Open open{};
  };

  template <class Act>
  void for_all(Act act) const {
    if (first_) act(*first_);
    for (const Watched& one : others_) act(one);
  }
  void watch(int index, MPI_Request request);
  bool has_ended(const Watched& one, CallState state) const;
  bool is_named(int index) const;
  void end_one(const Watched& one, CallState state);

  const MPI_Request* const asked_;
  const MPI_Request* requests_ = nullptr;
  const int* flag_ = nullptr;     ///< as all_if()
  const int* index_ = nullptr;    ///< as one_of()
  const int* count_ = nullptr;    ///< as some_of()
  const int* indices_ = nullptr;  ///< likewise
  MPI_Request freed_ = MPI_REQUEST_NULL;
  std::optional<Watched> first_{};  ///< most are alone
  std::vector<Watched> others_{};
};

}  // namespace hymn::preload
