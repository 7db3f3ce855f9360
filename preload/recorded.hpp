// What is recorded of one call, from its begin to its end.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "preload/persistent.hpp"
#include "preload/session.hpp"
#include "recorder/call_record.hpp"

namespace hymn::preload {

/// The facts of a call are told as in calls.inc; nothing is done where nothing is watched. Then it
/// is started, and ended.
class Recorded {
 public:
  /// `asked`: the requests that looking() is told of, as they were before MPI has answered; null:
  /// it has not yet.
  Recorded(Session& session, Call call, const void* site, const MPI_Request* asked = nullptr)
      : session_(session), watch_(session.watch()), call_(call), site_(site), asked_(asked) {}
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  bool is_on() const { return watch_ != nullptr; }

  Recorded& none() { return *this; }
  /// A collective, of so much of each rank; without a count: of nothing, or of blocks that differ.
  Recorded& of(MPI_Comm comm);
  Recorded& of(MPI_Comm comm, int count, MPI_Datatype type);
  /// With a root, which gives or takes a block of each rank.
  Recorded& of_blocks(MPI_Comm comm, int root, int count, MPI_Datatype type, int root_count,
                      MPI_Datatype root_type);
  Recorded& by(MPI_Op op);
  Recorded& at(int root);
  /// Messages.
  Recorded& to(MPI_Comm comm, int peer, int tag, int count, MPI_Datatype type);
  Recorded& from(MPI_Comm comm, int peer, int tag, int count, MPI_Datatype type);
  Recorded& probing(MPI_Comm comm, int peer, int tag);
  /// It only starts what this request ends.
  Recorded& until(const MPI_Request* request);
  /// It only says what this request will do whenever it is started; it starts such; it frees one.
  Recorded& persistent(const MPI_Request* request);
  Recorded& starting(int count, const MPI_Request* requests);
  Recorded& freeing(const MPI_Request* request);
  /// What MPI says of the requests that it has looked at: whether it has ended all, which one, or
  /// which of them.
  Recorded& all_if(const int* flag);
  Recorded& one_of(const int* index);
  Recorded& some_of(const int* count, const int* indices);
  /// Waits for all of these, or ends some of them.
  Recorded& waiting(int count, const MPI_Request* requests);
  Recorded& looking(int count, const MPI_Request* requests);
  /// It may wait for other ranks in a way of its own.
  Recorded& blocking();
  /// It makes a communicator.
  Recorded& making(const MPI_Comm* comm);
  /// It gives one a name.
  Recorded& naming(MPI_Comm comm);

  void start();
  void end(int code);

 private:
  struct Message {
    Communicator* comm = nullptr;
    OpType type = OpType::send;
    int peer = -1;
    int tag = 0;
    std::size_t bytes = 0;
    std::uint64_t record = 0;
  };
  /// What becomes of its messages.
  enum class Use : std::uint8_t { blocks, starts, says };
  struct Watched {
    int index = 0;
    Requests::Open open{};
  };

  bool find(MPI_Comm comm);
  void end_messages(int code);
  void name_group();
  void add_message(OpType type, MPI_Comm comm, int peer, int tag, int count, MPI_Datatype type_of);
  CallRecord record_of_collective() const;
  void start_collective();
  std::uint64_t start_message(const WatchedGroup& group, const PersistentMessage& message);
  void start_persistent();
  bool has_ended(const Watched& one, CallState state) const;
  bool is_named(int index) const;
  void end_collective(int code);
  void end_requests(CallState state);
  /// It is in flight, and a request ends it. `group`: of a collective.
  bool leaves_open(int code, std::uint64_t record, const std::shared_ptr<WatchedGroup>& group);
  void end_open(const Requests::Open& open, CallState state);

  Session& session_;
  Watch* const watch_;
  Call call_;
  const void* site_;
  const MPI_Request* const asked_;
  Communicator* comm_ = nullptr;  ///< of a collective
  std::size_t bytes_ = 0;
  bool is_uneven_ = false;
  int root_ = -1;
  ReduceKind kind_ = ReduceKind::sum;
  std::uint64_t record_ = 0;
  std::uint64_t sequence_ = 0;
  std::array<Message, 2> messages_{};
  std::size_t message_count_ = 0;
  Use use_ = Use::blocks;
  const MPI_Request* request_ = nullptr;
  const MPI_Request* requests_ = nullptr;
  const int* flag_ = nullptr;     ///< as all_if()
  const int* index_ = nullptr;    ///< as one_of()
  const int* count_ = nullptr;    ///< as some_of()
  const int* indices_ = nullptr;  ///< likewise
  const MPI_Request* started_ = nullptr;
  int started_count_ = 0;
  MPI_Request freed_ = MPI_REQUEST_NULL;
  std::vector<Watched> watched_{};
  bool is_outer_ = false;
  const MPI_Comm* made_ = nullptr;
  MPI_Comm named_ = MPI_COMM_NULL;
};

}  // namespace hymn::preload
