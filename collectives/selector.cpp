#include "collectives/selector.hpp"

#include <fmt/format.h>

#include "collectives/reduce/reducer.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr std::uint64_t answer_bits = 8;
constexpr std::uint64_t count_bits = 32;

}  // namespace

Selector::Selector(Algorithms algorithms, PathPolicy policy)
    : algorithms_(std::move(algorithms)), policy_(std::move(policy)) {}

// All that an answer may depend on, in the upper bits; 0 when there is too much to remember: given
// counts, the types of other libraries, very large counts.
std::uint64_t Selector::key(const Request& request) const {
  const ConstBufferView& in = request.inputs.flat();
  const BufferView& out = request.outputs.flat();
  const std::size_t count = request.type == OpType::scatter ? out.count : in.count;
  if (count >> count_bits != 0 || request.inputs.layout() == Layout::counted ||
      request.outputs.layout() == Layout::counted || in.dtype == DataType::opaque ||
      out.dtype == DataType::opaque || request.op.kind() == ReduceKind::opaque)
    return 0;
  std::uint64_t key = 1;
  auto append = [&key](auto value, unsigned bits) {
    key = (key << bits) | static_cast<std::uint64_t>(value);
  };
  append(request.type, 4);
  append(request.op.kind(), 4);
  append(request.inputs.dtype(), 4);
  append(request.outputs.dtype(), 4);
  append(request.inputs.layout(), 3);
  append(request.outputs.layout(), 3);
  append(count, count_bits);
  return key << answer_bits;
}

Algorithm& Selector::pick(const Request& request) {
  const std::uint64_t wanted = key(request);
  if (wanted == 0) return *algorithms_[search(request)];
  // Multiplied, so that near counts fall into different entries.
  auto& entry = cache_[(wanted * 0x9e3779b97f4a7c15ull) >> 58];
  const std::uint64_t found = entry.load(std::memory_order_relaxed);
  constexpr std::uint64_t answer_mask = (1u << answer_bits) - 1;
  if ((found & ~answer_mask) == wanted) [[likely]]
    return *algorithms_[found & answer_mask];
  const std::size_t answer = search(request);
  if (answer <= answer_mask) entry.store(wanted | answer, std::memory_order_relaxed);
  return *algorithms_[answer];
}

Candidate Selector::ask(const Algorithm& algorithm, const Request& request) const {
  Candidate candidate{std::string(algorithm.path()), std::string(algorithm.name()), false, ""};
  if (!policy_.allows(algorithm.path())) {
    candidate.reason = fmt::format("not allowed by the path setting '{}'", policy_.text());
    return candidate;
  }
  Verdict verdict = algorithm.can_run(request);
  candidate.can_run = verdict.ok;
  candidate.reason = std::move(verdict.reason);
  return candidate;
}

std::size_t Selector::search(const Request& request) const {
  for (std::size_t i = 0; i < algorithms_.size(); ++i)
    if (algorithms_[i]->serves(request.type) && ask(*algorithms_[i], request).can_run) return i;
  refuse(request);
}

void Selector::refuse(const Request& request) const {
  if (reduces(request.type) && request.op.kind() != ReduceKind::opaque &&
      request.inputs.dtype() != DataType::opaque) {
    const std::string reason = refusal(request.inputs.dtype(), request.op.kind());
    if (!reason.empty())
      throw UnsupportedError(fmt::format("{} of {}: {}", to_string(request.op.kind()),
                                         to_string(request.inputs.dtype()), reason));
  }
  std::string reasons;
  for (const Candidate& candidate : explain(request).candidates)
    reasons += fmt::format("{}{} ({}): {}", reasons.empty() ? "" : "; ", candidate.path,
                           candidate.algorithm, candidate.reason);
  throw UnsupportedError(
      fmt::format("no path can carry this: {}", reasons.empty() ? "there is none" : reasons),
      {.remedy =
           policy_.text().empty() ? "" : "allow more paths in HYMN_PATH or the group's options"});
}

Explanation Selector::explain(const Request& request) const {
  Explanation explanation;
  for (const auto& algorithm : algorithms_) {
    if (!algorithm->serves(request.type)) continue;
    Candidate candidate = ask(*algorithm, request);
    if (candidate.can_run && explanation.algorithm.empty()) {
      explanation.path = candidate.path;
      explanation.algorithm = candidate.algorithm;
    }
    explanation.candidates.push_back(std::move(candidate));
  }
  return explanation;
}

}  // namespace hymn
