#include "control/message.hpp"

#include <fmt/format.h>

#include <concepts>
#include <tuple>
#include <utility>

#include "hymn/error.hpp"

namespace hymn {

namespace control {
namespace {

/// The fields of each kind, in the order in which they travel.
template <class Value>
auto parts(Value& v) {
  using Kind = std::remove_const_t<Value>;
  if constexpr (std::same_as<Kind, GroupMark>) {
    return std::tie(v.uid, v.entered, v.completed);
  } else if constexpr (std::same_as<Kind, PeerNews>) {
    return std::tie(v.rank, v.state, v.detail, v.marks, v.culprits, v.broke_off);
  } else if constexpr (std::same_as<Kind, Inquiry>) {
    return std::tie(v.uid, v.sequence, v.sites);
  } else if constexpr (std::same_as<Kind, ProgressReport>) {
    return std::tie(v.rank, v.state, v.knows_group, v.makes, v.entered, v.completed, v.shrinks,
                    v.doing, v.remark, v.waits, v.undriven, v.call, v.site, v.signature, v.awaited);
  } else if constexpr (std::same_as<Kind, OwnWait>) {
    return std::tie(v.uid, v.sequence, v.ranks, v.milliseconds, v.ended, v.any, v.makes, v.tests);
  } else if constexpr (std::same_as<Kind, Beat>) {
    return std::tie(v.marks);
  } else if constexpr (std::same_as<Kind, Goodbye>) {
    return std::tie(v.marks, v.why, v.culprits, v.broke_off);
  } else if constexpr (std::same_as<Kind, News>) {
    return std::tie(v.news);
  } else if constexpr (std::same_as<Kind, AbortGroup>) {
    return std::tie(v.uid, v.reason, v.missing);
  } else if constexpr (std::same_as<Kind, DumpNow>) {
    return std::tie(v.reason, v.asked_for);
  } else if constexpr (std::same_as<Kind, Question>) {
    return std::tie(v.id, v.asker, v.about, v.asked);
  } else if constexpr (std::same_as<Kind, Answer>) {
    return std::tie(v.id, v.asker, v.report);
  } else if constexpr (std::same_as<Kind, EnteredCall>) {
    return std::tie(v.uid, v.sequence, v.signature, v.words);
  } else if constexpr (std::same_as<Kind, ShrinkCall>) {
    return std::tie(v.uid, v.members, v.void_uid);
  } else if constexpr (std::same_as<Kind, ShrinkVerdict>) {
    return std::tie(v.uid, v.new_uid, v.survivors);
  } else if constexpr (std::same_as<Kind, Moved>) {
    return std::tuple<>();
  } else if constexpr (std::same_as<Kind, CallProgress>) {
    return std::tie(v.rank, v.knows_group, v.is_recorded, v.is_overwritten, v.joins, v.joined_at,
                    v.calls);
  } else if constexpr (std::same_as<Kind, CallQuestion>) {
    return std::tie(v.id, v.asker, v.uid, v.sequence, v.asked);
  } else if constexpr (std::same_as<Kind, CallAnswer>) {
    return std::tie(v.id, v.asker, v.report);
  } else {
    static_assert(std::same_as<Kind, Flush>);
    return std::tie(v.number);
  }
}

class Writer {
 public:
  void field(std::uint64_t value) { packer_.number(value); }
  void field(int value) { packer_.number(static_cast<std::uint64_t>(std::int64_t{value})); }
  void field(bool value) { packer_.number(value ? 1 : 0); }
  void field(PeerState value) { packer_.number(static_cast<std::uint64_t>(value)); }
  void field(const std::string& value) {
    packer_.text(std::string_view(value).substr(0, longest_text));
  }
  template <class Item>
  void field(const std::vector<Item>& items) {
    packer_.number(items.size());
    for (const Item& item : items) field(item);
  }
  template <class Value>
  void field(const Value& value) {
    std::apply([this](const auto&... part) { (this->field(part), ...); }, parts(value));
  }
  const Bytes& packed() const { return packer_.packed(); }

 private:
  Packer packer_;
};

[[noreturn]] void refuse(std::string_view what) {
  throw NetworkError(fmt::format("the control plane has received {}", what),
                     {.remedy = "check that all ranks run the same version of hymn"});
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : unpacker_(bytes) {}
  void field(std::uint64_t& value) { value = unpacker_.number(); }
  void field(int& value) {
    const auto number = static_cast<std::int64_t>(unpacker_.number());
    if (!std::in_range<int>(number)) refuse("a number that is too large");
    value = static_cast<int>(number);
  }
  void field(bool& value) {
    const std::uint64_t number = unpacker_.number();
    if (number > 1) refuse("a boolean that is neither 0 nor 1");
    value = number == 1;
  }
  void field(PeerState& value) {
    const std::uint64_t number = unpacker_.number();
    if (number > static_cast<std::uint64_t>(PeerState::dead)) refuse("an unknown state of a rank");
    value = static_cast<PeerState>(number);
  }
  void field(std::string& value) {
    value = unpacker_.text();
    if (value.size() > longest_text) refuse("a text that is too long");
  }
  template <class Item>
  void field(std::vector<Item>& items) {
    // One by one: a count is believed only as far as there is something behind it.
    for (std::size_t left = unpacker_.count(); left > 0; --left) field(items.emplace_back());
  }
  template <class Value>
  void field(Value& value) {
    std::apply([this](auto&... part) { (this->field(part), ...); }, parts(value));
  }
  void finish() const {
    if (!unpacker_.empty()) refuse("extra bytes after a message");
  }

 private:
  Unpacker unpacker_;
};

/// The alternative with this index, read.
template <std::size_t index = 0>
Message read_kind(std::uint64_t kind, Reader& reader) {
  if constexpr (index == std::variant_size_v<Message>) {
    refuse("a message of an unknown kind");
  } else {
    if (kind != index) return read_kind<index + 1>(kind, reader);
    std::variant_alternative_t<index, Message> value;
    reader.field(value);
    return value;
  }
}

}  // namespace

Bytes pack(const Message& message) {
  Writer writer;
  writer.field(std::uint64_t{message.index()});
  std::visit([&writer](const auto& value) { writer.field(value); }, message);
  return writer.packed();
}

std::vector<Message> in_parts(Message message) {
  std::vector<Message> parts;
  const auto split = [&parts](std::vector<GroupMark>& marks) {
    while (marks.size() > most_marks) {
      const auto rest = marks.end() - static_cast<std::ptrdiff_t>(most_marks);
      parts.emplace_back(Beat{{rest, marks.end()}});
      marks.erase(rest, marks.end());
    }
  };
  if (auto* const beat = std::get_if<Beat>(&message)) split(beat->marks);
  if (auto* const goodbye = std::get_if<Goodbye>(&message)) split(goodbye->marks);
  parts.push_back(std::move(message));
  return parts;
}

Message unpack(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  std::uint64_t kind = 0;
  reader.field(kind);
  Message message = read_kind(kind, reader);
  reader.finish();
  return message;
}

}  // namespace control
}  // namespace hymn
