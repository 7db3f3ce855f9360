// Follows the JSON as it comes, so that a dump needs no more memory than its values, and one that
// breaks off has given all that came before.
#include "tools/trace/dump_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "tools/trace/dump_fields.hpp"

namespace hymn::trace {

namespace {

using Json = nlohmann::json;

/// Where in the dump the reader is.
enum class Scope : std::uint8_t {
  outside,
  dump,
  groups,
  group,
  group_ranks,
  peers,
  peer,
  call,
  making,
  making_ranks,
  entries,
  entry,
  group_names,
  input_sizes,
  output_sizes,
  input_size,
  output_size,
  input_dtypes,
  output_dtypes,
  frames,
  frame,
  ignored,
};
constexpr std::size_t scope_count = static_cast<std::size_t>(Scope::ignored) + 1;

/// What an object or a list opens. An empty key: any, or the members of a list.
struct Transition {
  Scope from;
  std::string_view key;
  bool is_list;
  Scope to;
};

constexpr std::array transitions{
    Transition{Scope::outside, "", false, Scope::dump},
    Transition{Scope::dump, "pg_config", false, Scope::groups},
    Transition{Scope::groups, "", false, Scope::group},
    Transition{Scope::group, "ranks", true, Scope::group_ranks},
    Transition{Scope::dump, "peers", true, Scope::peers},
    Transition{Scope::peers, "", false, Scope::peer},
    Transition{Scope::dump, "in_call", false, Scope::call},
    Transition{Scope::dump, "making", false, Scope::making},
    Transition{Scope::making, "ranks", true, Scope::making_ranks},
    Transition{Scope::dump, "entries", true, Scope::entries},
    Transition{Scope::entries, "", false, Scope::entry},
    Transition{Scope::entry, "process_group", true, Scope::group_names},
    Transition{Scope::entry, "input_sizes", true, Scope::input_sizes},
    Transition{Scope::entry, "output_sizes", true, Scope::output_sizes},
    Transition{Scope::input_sizes, "", true, Scope::input_size},
    Transition{Scope::output_sizes, "", true, Scope::output_size},
    Transition{Scope::entry, "input_dtypes", true, Scope::input_dtypes},
    Transition{Scope::entry, "output_dtypes", true, Scope::output_dtypes},
    Transition{Scope::entry, "frames", true, Scope::frames},
    Transition{Scope::frames, "", false, Scope::frame},
};

constexpr std::size_t longest_list = 400;  // characters
constexpr std::uint64_t most_elements = std::numeric_limits<std::uint64_t>::max();

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > most_elements / b ? most_elements : a * b;
}

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  return a > most_elements - b ? most_elements : a + b;
}

/// nlohmann's parser tells each thing it meets; returning false would end it.
class Handler {
 public:
  explicit Handler(Dump& dump) : dump_(dump) {}

  bool null() { return scalar(Scalar::null()); }
  bool boolean(bool value) { return scalar(Scalar::of(value)); }
  bool number_integer(std::int64_t value) { return scalar(Scalar::of(value)); }
  bool number_unsigned(std::uint64_t value) {
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return scalar(Scalar::of(static_cast<std::int64_t>(std::min(value, most))));
  }
  bool number_float(double value, const std::string&) { return scalar(Scalar::of(value)); }
  bool string(std::string& text) { return scalar(Scalar::of(text)); }
  static bool binary(std::vector<std::uint8_t>&) { return true; }
  bool key(std::string& text) {
    key_.swap(text);
    return true;
  }
  bool start_object(std::size_t) { return enter(false); }
  bool start_array(std::size_t) { return enter(true); }
  bool end_object() { return leave(); }
  bool end_array() { return leave(); }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) {
    error_at_ = position;
    return false;
  }

  /// The byte at which the JSON ends to be JSON.
  std::size_t error_at() const { return error_at_; }

 private:
  bool enter(bool is_list);
  bool leave();
  bool scalar(const Scalar& value);
  void begin(Scope scope);
  void end_entry();
  void end_frame();
  void begin_size(BufferList& buffers);
  void add_extent(BufferList& buffers, std::int64_t extent);
  static void add_dtype(BufferList& buffers, const std::string& dtype);

  // Writers keep to an order, so the key that came after the last one is looked at first.
  template <class T>
  void fill(T& target, std::span<const Field<T>> fields, const Scalar& value) {
    std::size_t& next = next_[static_cast<std::size_t>(scopes_.back())];
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::size_t at = (next + i) % fields.size();
      if (fields[at].key != key_) continue;
      fields[at].take(target, value);
      next = at + 1;
      return;
    }
  }

  Dump& dump_;
  Entry entry_;
  CallSite frame_;
  std::uint64_t extent_ = 0;  // of the buffer that is being read
  int group_names_ = 0;
  std::string key_;
  std::vector<Scope> scopes_{Scope::outside};
  std::array<std::size_t, scope_count> next_{};
  std::size_t error_at_ = 0;
};

bool Handler::enter(bool is_list) {
  const Scope from = scopes_.back();
  const auto transition =
      std::find_if(transitions.begin(), transitions.end(), [&](const Transition& candidate) {
        return candidate.from == from && candidate.is_list == is_list &&
               (candidate.key.empty() || candidate.key == key_);
      });
  const Scope to = transition == transitions.end() ? Scope::ignored : transition->to;
  scopes_.push_back(to);
  begin(to);
  return true;
}

void Handler::begin(Scope scope) {
  switch (scope) {
    case Scope::group:
      dump_.groups.emplace_back().uid = Scalar::of(key_).text();
      break;
    case Scope::group_ranks:
      dump_.groups.back().ranks.emplace();
      break;
    case Scope::peer:
      dump_.peers.emplace_back();
      break;
    case Scope::call:
      dump_.in_call.emplace();
      break;
    case Scope::making:
      dump_.making.emplace();
      break;
    case Scope::making_ranks:
      if (auto& making = dump_.making) making->ranks.emplace();
      break;
    case Scope::entries:
      dump_.has_entries = true;
      break;
    case Scope::entry:
      entry_ = Entry();
      break;
    case Scope::group_names:
      group_names_ = 0;
      break;
    case Scope::input_size:
      begin_size(entry_.input);
      break;
    case Scope::output_size:
      begin_size(entry_.output);
      break;
    case Scope::frame:
      frame_ = CallSite();
      break;
    case Scope::outside:
    case Scope::dump:
    case Scope::groups:
    case Scope::peers:
    case Scope::input_sizes:
    case Scope::output_sizes:
    case Scope::input_dtypes:
    case Scope::output_dtypes:
    case Scope::frames:
    case Scope::ignored:
      break;
  }
}

bool Handler::leave() {
  const Scope scope = scopes_.back();
  scopes_.pop_back();
  const bool is_input = scope == Scope::input_size || scope == Scope::input_sizes;
  BufferList& buffers = is_input ? entry_.input : entry_.output;
  if (scope == Scope::entry) {
    dump_.entries.push_back(std::move(entry_));
  } else if (scope == Scope::frame) {
    end_frame();
  } else if (scope == Scope::input_size || scope == Scope::output_size) {
    buffers.sizes += ']';
    buffers.elements = sum(buffers.elements, extent_);
  } else if (scope == Scope::input_sizes || scope == Scope::output_sizes) {
    buffers.sizes += buffers.sizes.empty() ? "[]" : "]";
  }
  return true;
}

// The first frame with a file is the place that a person looks for; others are the library's.
void Handler::end_frame() {
  const CallSite& old = entry_.site;
  const bool better = (old.file.empty() && !frame_.file.empty()) ||
                      (old.file.empty() && old.function.empty() && !frame_.function.empty()) ||
                      old == CallSite();
  if (better) entry_.site = std::move(frame_);
}

void Handler::begin_size(BufferList& buffers) {
  buffers.sizes += buffers.sizes.empty() ? "[[" : ", [";
  extent_ = 1;
}

void Handler::add_extent(BufferList& buffers, std::int64_t extent) {
  if (buffers.sizes.size() < longest_list) {
    if (buffers.sizes.back() != '[') buffers.sizes += ", ";
    buffers.sizes += std::to_string(extent);
  }
  extent_ = product(extent_, extent > 0 ? static_cast<std::uint64_t>(extent) : 0);
}

void Handler::add_dtype(BufferList& buffers, const std::string& dtype) {
  const bool is_repeated = buffers.dtype == dtype || buffers.dtype.ends_with(", " + dtype);
  if (is_repeated || buffers.dtype.size() > longest_list) return;
  buffers.dtype += (buffers.dtype.empty() ? "" : ", ") + dtype;
}

bool Handler::scalar(const Scalar& value) {
  switch (scopes_.back()) {
    case Scope::dump:
      fill(dump_, dump_fields(), value);
      break;
    case Scope::group:
      fill(dump_.groups.back(), group_fields(), value);
      break;
    case Scope::group_ranks:
      if (auto& ranks = dump_.groups.back().ranks) ranks->push_back(value.whole(-1));
      break;
    case Scope::peer:
      fill(dump_.peers.back(), peer_fields(), value);
      break;
    case Scope::call:
      if (auto& call = dump_.in_call) fill(*call, call_fields(), value);
      break;
    case Scope::making:
      if (auto& making = dump_.making) fill(*making, making_fields(), value);
      break;
    case Scope::making_ranks:
      if (auto& making = dump_.making; making && making->ranks)
        making->ranks->push_back(value.whole(-1));
      break;
    case Scope::entry:
      fill(entry_, entry_fields(), value);
      break;
    case Scope::group_names:
      if (group_names_++ == 0) entry_.group = value.text();
      break;
    case Scope::input_size:
      add_extent(entry_.input, value.whole(0));
      break;
    case Scope::output_size:
      add_extent(entry_.output, value.whole(0));
      break;
    case Scope::input_dtypes:
      add_dtype(entry_.input, value.text());
      break;
    case Scope::output_dtypes:
      add_dtype(entry_.output, value.text());
      break;
    case Scope::frame:
      fill(frame_, site_fields(), value);
      break;
    case Scope::outside:
    case Scope::groups:
    case Scope::peers:
    case Scope::entries:
    case Scope::input_sizes:
    case Scope::output_sizes:
    case Scope::frames:
    case Scope::ignored:
      break;
  }
  return true;
}

/// Why a dump whose JSON was read cannot be used.
std::string refusal(const Dump& dump) {
  if (dump.version.empty()) return "it is not a dump of hymn's flight recorder: it has no version";
  const std::string major = dump.version.substr(0, dump.version.find('.'));
  if (major != "1")
    return fmt::format(
        "its format is version {}, and this hymn reads 1.x: use the hymn trace of "
        "the hymn that wrote it{}",
        dump.version, dump.hymn_version.empty() ? "" : " (" + dump.hymn_version + ")");
  if (dump.world_size < 1) return "it is damaged: its world_size is missing or absurd";
  if (dump.rank < 0 || dump.rank >= dump.world_size)
    return fmt::format("it is damaged: its rank is not one of a world of {}", dump.world_size);
  return "";
}

}  // namespace

ReadDump read_dump(std::string_view text, const std::string& file) {
  Dump dump;
  dump.file = file;
  Handler handler(dump);
  const bool whole = Json::sax_parse(text.data(), text.data() + text.size(), &handler);
  if (!whole && !dump.has_entries) {
    if (text.empty()) return {std::nullopt, "it is empty"};
    return {std::nullopt, fmt::format("it is damaged, or not a dump: at byte {} of {}",
                                      handler.error_at(), text.size())};
  }
  if (std::string problem = refusal(dump); !problem.empty()) return {std::nullopt, problem};
  std::string problem;
  if (!whole) {
    dump.truncated = true;
    problem = fmt::format("it is truncated at byte {}: {} of its operations could be read",
                          handler.error_at(), dump.entries.size());
  }
  return {std::move(dump), std::move(problem)};
}

}  // namespace hymn::trace
