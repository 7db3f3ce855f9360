#include "tools/trace/dump_fields.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/words.hpp"

namespace hymn::trace {

namespace {

constexpr std::size_t longest_text = 400;
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

// Almost all text is plain, and there are millions of pieces of it.
bool is_plain(const std::string& text) {
  return text.size() <= longest_text &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

std::string base_name(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

EntryState state_named(const std::string& name) {
  if (name == "started") return EntryState::started;
  if (name == "completed") return EntryState::completed;
  if (name == "failed") return EntryState::failed;
  return EntryState::scheduled;
}

// A rank that does not fit into an int is none: the reader refuses it.
int small(std::int64_t number) {
  return number < 0 || number > most_ranks ? -1 : static_cast<int>(number);
}

}  // namespace

Scalar Scalar::of(bool value) {
  Scalar scalar;
  scalar.kind_ = Kind::boolean;
  scalar.whole_ = value ? 1 : 0;
  return scalar;
}

Scalar Scalar::of(std::int64_t value) {
  Scalar scalar;
  scalar.kind_ = Kind::whole;
  scalar.whole_ = value;
  return scalar;
}

Scalar Scalar::of(double value) {
  Scalar scalar;
  scalar.kind_ = Kind::real;
  scalar.real_ = value;
  return scalar;
}

Scalar Scalar::of(std::string& text) {
  Scalar scalar;
  scalar.kind_ = Kind::text;
  scalar.text_ = &text;
  return scalar;
}

std::optional<std::int64_t> Scalar::maybe_whole() const {
  if (kind_ == Kind::whole) return whole_;
  if (kind_ != Kind::real || std::isnan(real_)) return std::nullopt;
  constexpr double edge = 9.2e18;  // below 2^63, so that the cast is defined
  if (real_ >= edge) return largest;
  if (real_ <= -edge) return -largest;
  return static_cast<std::int64_t>(real_);
}

std::int64_t Scalar::whole(std::int64_t otherwise) const {
  return maybe_whole().value_or(otherwise);
}

std::optional<double> Scalar::maybe_real() const {
  if (kind_ == Kind::real && std::isfinite(real_)) return real_;
  if (kind_ == Kind::whole) return static_cast<double>(whole_);
  return std::nullopt;
}

bool Scalar::flag(bool otherwise) const { return kind_ == Kind::boolean ? whole_ != 0 : otherwise; }

std::string Scalar::text() const {
  if (kind_ != Kind::text) return {};
  return is_plain(*text_) ? *text_ : printable(*text_, longest_text);
}

std::span<const Field<Dump>> dump_fields() {
  static constexpr Field<Dump> fields[] = {
      {"version", [](Dump& d, const Scalar& v) { d.version = v.text(); }},
      {"hymn_version", [](Dump& d, const Scalar& v) { d.hymn_version = v.text(); }},
      {"job", [](Dump& d, const Scalar& v) { d.job = v.text(); }},
      {"rank", [](Dump& d, const Scalar& v) { d.rank = small(v.whole(-1)); }},
      {"world_size", [](Dump& d, const Scalar& v) { d.world_size = small(v.whole(-1)); }},
      {"host", [](Dump& d, const Scalar& v) { d.host = v.text(); }},
      {"pid", [](Dump& d, const Scalar& v) { d.pid = v.whole(0); }},
      {"program", [](Dump& d, const Scalar& v) { d.program = base_name(v.text()); }},
      {"written_by", [](Dump& d, const Scalar& v) { d.written_by = v.whole(-1); }},
      {"trigger", [](Dump& d, const Scalar& v) { d.trigger = v.text(); }},
      {"reason", [](Dump& d, const Scalar& v) { d.reason = v.text(); }},
      {"time_ns", [](Dump& d, const Scalar& v) { d.time_ns = v.whole(0); }},
      {"timing", [](Dump& d, const Scalar& v) { d.timing = v.flag(false); }},
      {"progress_thread", [](Dump& d, const Scalar& v) { d.progress_thread = v.flag(false); }},
      {"recorded", [](Dump& d, const Scalar& v) { d.recorded = v.whole(0); }},
  };
  return fields;
}

std::span<const Field<GroupConfig>> group_fields() {
  static constexpr Field<GroupConfig> fields[] = {
      {"name", [](GroupConfig& g, const Scalar& v) { g.name = v.text(); }},
      {"desc", [](GroupConfig& g, const Scalar& v) { g.description = v.text(); }},
      {"label", [](GroupConfig& g, const Scalar& v) { g.label = v.text(); }},
      {"collective_seq",
       [](GroupConfig& g, const Scalar& v) { g.collective_seq = v.maybe_whole(); }},
      {"completed_seq", [](GroupConfig& g, const Scalar& v) { g.completed_seq = v.maybe_whole(); }},
      {"shadows_since", [](GroupConfig& g, const Scalar& v) { g.shadows_since = v.maybe_whole(); }},
      {"aborted",
       [](GroupConfig& g, const Scalar& v) {
         // null, or false, is what others may write for "it is not"
         if (std::string reason = v.text(); !reason.empty()) g.aborted = std::move(reason);
       }},
  };
  return fields;
}

std::span<const Field<PeerReport>> peer_fields() {
  static constexpr Field<PeerReport> fields[] = {
      {"rank", [](PeerReport& p, const Scalar& v) { p.rank = v.whole(-1); }},
      {"state", [](PeerReport& p, const Scalar& v) { p.state = v.text(); }},
      {"host", [](PeerReport& p, const Scalar& v) { p.host = v.text(); }},
      {"pid", [](PeerReport& p, const Scalar& v) { p.pid = v.whole(0); }},
      {"detail", [](PeerReport& p, const Scalar& v) { p.detail = v.text(); }},
  };
  return fields;
}

std::span<const Field<CallReport>> call_fields() {
  static constexpr Field<CallReport> fields[] = {
      {"name", [](CallReport& c, const Scalar& v) { c.name = v.text(); }},
      {"since_ns", [](CallReport& c, const Scalar& v) { c.since_ns = v.maybe_whole(); }},
  };
  return fields;
}

std::span<const Field<MakingReport>> making_fields() {
  static constexpr Field<MakingReport> fields[] = {
      {"kind", [](MakingReport& m, const Scalar& v) { m.kind = v.text(); }},
      {"uid", [](MakingReport& m, const Scalar& v) { m.uid = std::to_string(v.whole(0)); }},
      {"tag", [](MakingReport& m, const Scalar& v) { m.tag = v.text(); }},
      {"since_ns", [](MakingReport& m, const Scalar& v) { m.since_ns = v.maybe_whole(); }},
      {"given_up_ns", [](MakingReport& m, const Scalar& v) { m.given_up_ns = v.maybe_whole(); }},
  };
  return fields;
}

std::span<const Field<Entry>> entry_fields() {
  static constexpr Field<Entry> fields[] = {
      {"record_id", [](Entry& e, const Scalar& v) { e.record_id = v.whole(-1); }},
      {"pg_id",
       [](Entry& e, const Scalar& v) {
         if (e.group.empty()) e.group = std::to_string(v.whole(0));
       }},
      {"op", [](Entry& e, const Scalar& v) { e.op = v.text(); }},
      {"reduce_op", [](Entry& e, const Scalar& v) { e.reduce_op = v.text(); }},
      {"root", [](Entry& e, const Scalar& v) { e.root = v.maybe_whole(); }},
      {"peer", [](Entry& e, const Scalar& v) { e.peer = v.maybe_whole(); }},
      {"tag", [](Entry& e, const Scalar& v) { e.tag = v.maybe_whole(); }},
      {"is_p2p", [](Entry& e, const Scalar& v) { e.is_p2p = v.flag(false); }},
      {"collective_seq_id", [](Entry& e, const Scalar& v) { e.collective_seq = v.whole(0); }},
      {"p2p_seq_id", [](Entry& e, const Scalar& v) { e.p2p_seq = v.whole(0); }},
      {"op_id", [](Entry& e, const Scalar& v) { e.op_id = v.whole(0); }},
      {"signature", [](Entry& e, const Scalar& v) { e.signature = v.text(); }},
      {"state", [](Entry& e, const Scalar& v) { e.state = state_named(v.text()); }},
      {"time_created_ns", [](Entry& e, const Scalar& v) { e.created_ns = v.maybe_whole(); }},
      {"time_discovered_started_ns",
       [](Entry& e, const Scalar& v) { e.started_ns = v.maybe_whole(); }},
      {"time_discovered_completed_ns",
       [](Entry& e, const Scalar& v) { e.completed_ns = v.maybe_whole(); }},
      {"duration_ms", [](Entry& e, const Scalar& v) { e.duration_ms = v.maybe_real(); }},
      {"shadowed", [](Entry& e, const Scalar& v) { e.shadowed = v.flag(false); }},
      {"retired", [](Entry& e, const Scalar& v) { e.retired = v.flag(false); }},
      {"waited_for", [](Entry& e, const Scalar& v) { e.waited_for = v.flag(true); }},
      {"undriven", [](Entry& e, const Scalar& v) { e.undriven = v.flag(false); }},
      {"on_gpu", [](Entry& e, const Scalar& v) { e.on_gpu = v.flag(false); }},
      {"path", [](Entry& e, const Scalar& v) { e.path = v.text(); }},
      {"algorithm", [](Entry& e, const Scalar& v) { e.algorithm = v.text(); }},
  };
  return fields;
}

std::span<const Field<CallSite>> site_fields() {
  static constexpr Field<CallSite> fields[] = {
      {"address", [](CallSite& s, const Scalar& v) { s.address = v.text(); }},
      {"name", [](CallSite& s, const Scalar& v) { s.function = v.text(); }},
      {"filename", [](CallSite& s, const Scalar& v) { s.file = base_name(v.text()); }},
      {"line", [](CallSite& s, const Scalar& v) { s.line = v.whole(0); }},
  };
  return fields;
}

}  // namespace hymn::trace
