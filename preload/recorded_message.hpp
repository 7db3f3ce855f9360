// What is recorded of messages between two ranks.
#pragma once

#include <array>
#include <cstdint>

#include "preload/persistent.hpp"
#include "preload/recorded_call.hpp"

namespace hymn::preload {

class RecordedMessage : public RecordedCall {
 public:
  using RecordedCall::RecordedCall;

  RecordedMessage& to(MPI_Comm comm, int peer, int tag, int count, MPI_Datatype type);
  RecordedMessage& from(MPI_Comm comm, int peer, int tag, int count, MPI_Datatype type);
  RecordedMessage& probing(MPI_Comm comm, int peer, int tag);
  /// It only starts what this request ends.
  RecordedMessage& until(const MPI_Request* request);
  /// It only says what this request will do whenever it is started; it starts such.
  RecordedMessage& persistent(const MPI_Request* request);
  RecordedMessage& starting(int count, const MPI_Request* requests);

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
  /// What becomes of them.
  enum class Use : std::uint8_t { blocks, starts, says, starts_again };

  void add(OpType type, MPI_Comm comm, int peer, int tag, int count, MPI_Datatype type_of);
  std::uint64_t start_one(const WatchedGroup& group, const PersistentMessage& message);
  void end_one(const Message& message, int code);
  void start_again();

  std::array<Message, 2> messages_{};
  std::size_t count_ = 0;
  Use use_ = Use::blocks;
  const MPI_Request* request_ = nullptr;
  int request_count_ = 0;
};

}  // namespace hymn::preload
