// The messages of the control plane, and their form on the wire.
//
// Every rank speaks with the coordinator only; the coordinator passes on what concerns others.
#pragma once

#include <span>
#include <variant>

#include "base/meeting.hpp"
#include "control/peer_news.hpp"

namespace hymn::control {

/// Both ways, every second or so: a sign of life. From a rank with what has changed.
struct Beat {
  std::vector<GroupMark> marks{};
  friend bool operator==(const Beat&, const Beat&) = default;
};
/// From a rank that ends its world. It is no failure; but it may have met one.
struct Goodbye {
  std::vector<GroupMark> marks{};
  std::string why{};            ///< the error that makes it leave; empty: it is done
  std::vector<int> culprits{};  ///< whose failure that was, or it had seen before
  bool broke_off = false;       ///< it leaves in the middle of what it did
  friend bool operator==(const Goodbye&, const Goodbye&) = default;
};
/// From a rank: it has seen this of another one. From the coordinator: so it is.
struct News {
  PeerNews news{};
  friend bool operator==(const News&, const News&) = default;
};
/// The group is given up, on all ranks.
struct AbortGroup {
  std::uint64_t uid = 0;
  std::string reason{};
  std::vector<int> missing{};  ///< ranks that were waited for, or have failed
  friend bool operator==(const AbortGroup&, const AbortGroup&) = default;
};
/// All ranks write what their flight recorders hold.
struct DumpNow {
  std::string reason{};
  bool asked_for = false;  ///< by the program, and not for a failure
  friend bool operator==(const DumpNow&, const DumpNow&) = default;
};
/// "Where are you in this group?" To the coordinator with those who are asked; from the coordinator
/// to each.
struct Question {
  std::uint64_t id = 0;  ///< the asker's own
  int asker = -1;
  Inquiry about{};
  std::vector<int> asked{};
  friend bool operator==(const Question&, const Question&) = default;
};
/// The answer, by way of the coordinator.
struct Answer {
  std::uint64_t id = 0;
  int asker = -1;
  ProgressReport report{};
  friend bool operator==(const Answer&, const Answer&) = default;
};
/// A collective that this rank has entered: at level info of the checks.
struct EnteredCall {
  std::uint64_t uid = 0;
  std::uint64_t sequence = 0;
  std::uint64_t signature = 0;
  std::string words{};  ///< "all_reduce of 1024 float32 with sum"
  friend bool operator==(const EnteredCall&, const EnteredCall&) = default;
};
/// From a survivor who calls shrink(); or, without members, from one who does not wait any more for
/// what it has called, or has no use for what was settled: that is void, whoever else tells of it.
struct ShrinkCall {
  std::uint64_t uid = 0;
  std::vector<int> members{};  ///< of the group as it was
  std::uint64_t void_uid = 0;  ///< the new group of the verdict that is void; 0: the one in force
  friend bool operator==(const ShrinkCall&, const ShrinkCall&) = default;
};
/// From the coordinator, to all survivors alike.
struct ShrinkVerdict {
  std::uint64_t uid = 0;      ///< of the group as it was
  std::uint64_t new_uid = 0;  ///< of the survivors' group
  std::vector<int> survivors{};
  friend bool operator==(const ShrinkVerdict&, const ShrinkVerdict&) = default;
};

/// To a coordinator that has been silent for too long: this rank speaks with the next one from now
/// on. From that coordinator, to those who are still there: so shall they.
struct Moved {
  friend bool operator==(const Moved&, const Moved&) = default;
};

/// "What have you called in this group, from this collective on?" From a rank that shadows; it
/// travels as a Question does.
struct CallQuestion {
  std::uint64_t id = 0;  ///< the asker's own
  int asker = -1;
  std::uint64_t uid = 0;
  std::uint64_t sequence = 0;
  std::vector<int> asked{};
  friend bool operator==(const CallQuestion&, const CallQuestion&) = default;
};
/// The answer, by way of the coordinator.
struct CallAnswer {
  std::uint64_t id = 0;
  int asker = -1;
  CallProgress report{};
  friend bool operator==(const CallAnswer&, const CallAnswer&) = default;
};

/// "Has all that I said been passed on?" Said back when it has, to all ranks that are not gone: who
/// has lost its coordinator, and is on its way to this one, is waited for. Who had come to this one
/// and has lost the connection is gone, unless its process is seen to live.
struct Flush {
  std::uint64_t number = 0;  ///< the asker's own
  friend bool operator==(const Flush&, const Flush&) = default;
};

using Message =
    std::variant<Beat, Goodbye, News, AbortGroup, DumpNow, Question, Answer, EnteredCall,
                 ShrinkCall, ShrinkVerdict, Moved, CallQuestion, CallAnswer, Flush>;

/// No text in a message is longer, so that a message always fits into a frame.
inline constexpr std::size_t longest_text = 16384;

/// In one message: of more groups it is told in several.
inline constexpr std::size_t most_marks = 4096;

/// Longer texts are cut.
Bytes pack(const Message& message);
/// What a rank says, in the order in which it is to be said: each with no more than `most_marks`.
std::vector<Message> in_parts(Message message);
/// Throws NetworkError for what is no message.
Message unpack(std::span<const std::byte> bytes);

}  // namespace hymn::control
