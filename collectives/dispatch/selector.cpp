#include "collectives/dispatch/selector.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "collectives/planner/peer_use.hpp"
#include "collectives/reduce/reducer.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr std::uint64_t answer_bits = 8;
constexpr std::uint64_t count_bits = 30;

// What groups of this build may have. The setting is one for the whole job; which of these a group
// has depends on where its members are.
std::set<std::string> names_of_this_build() {
  std::set<std::string> names;
  for (const AlgorithmModel* model : algorithm_models())
    for (const OpType type : all_op_types)
      if (is_in_this_build(*model) && is_collective(type) && model->serves.contains(type))
        names.emplace(model->name_for(type));
  return names;
}

std::string where(const Request& request) {
  const bool on_gpu = request.memory() == MemoryKind::device;
  if (request.type == OpType::barrier)
    return on_gpu ? "it is ordered by a stream" : "it is not ordered by a stream";
  return on_gpu ? "the buffers are in the memory of a GPU" : "the buffers are in host memory";
}

}  // namespace

Selector::Selector(Algorithms algorithms, SelectionRules rules, PlanContext context)
    : algorithms_(std::move(algorithms)), rules_(std::move(rules)), context_(std::move(context)) {
  const bool is_any_allowed = rules_.algo.text().empty();
  for (const auto& algorithm : algorithms_) {
    unsigned allowed = 0;
    for (const OpType type : all_op_types) {
      if (!algorithm->serves(type)) continue;
      if (is_any_allowed || rules_.algo.allows(type, algorithm->model().name_for(type)))
        allowed |= 1u << static_cast<unsigned>(type);
    }
    allowed_.push_back(allowed);
  }
  if (!is_any_allowed) rules_.algo.check_names(known_names());
}

std::set<std::string> Selector::known_names() const {
  std::set<std::string> names = names_of_this_build();
  for (const auto& algorithm : algorithms_)
    for (const OpType type : all_op_types)
      if (is_collective(type) && algorithm->serves(type))
        names.emplace(algorithm->model().name_for(type));
  return names;
}

// All that an answer may depend on, in the upper bits; 0 when there is too much to remember: given
// counts, tags, any source, types and operations of the program or of other libraries, very large
// counts.
std::uint64_t Selector::key(const Request& request) const {
  const ConstBufferView& in = request.inputs.flat();
  const BufferView& out = request.outputs.flat();
  const std::size_t count = all_have_outputs(request.type) ? out.count : in.count;
  if (count >> count_bits != 0 || request.inputs.layout() == Layout::counted ||
      request.outputs.layout() == Layout::counted || request.inputs.dtype() >= DataType::value ||
      request.outputs.dtype() >= DataType::value || request.op.kind() >= ReduceKind::custom ||
      request.tag != 0 || (awaits_message(request.type) && request.peer == any_source))
    return 0;
  // Each at its place, and not one after the other: then none has to wait for the one before.
  const auto at = [](auto value, unsigned place) {
    return static_cast<std::uint64_t>(value) << (answer_bits + count_bits + place);
  };
  const std::uint64_t is_on_gpu = request.memory() == MemoryKind::device ? 1 : 0;
  return is_on_gpu << 63 | std::uint64_t{1} << 62 | at(request.type, 20) |
         at(request.op.kind(), 16) | at(request.inputs.dtype(), 11) |
         at(request.outputs.dtype(), 6) | at(request.inputs.layout(), 3) |
         at(request.outputs.layout(), 0) | count << answer_bits;
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

bool Selector::knows_gpus() const {
  return std::ranges::any_of(
      algorithms_, [](const auto& algorithm) { return algorithm->takes(MemoryKind::device); });
}

bool Selector::is_allowed(std::size_t index, OpType type) const {
  return (allowed_[index] >> static_cast<unsigned>(type) & 1u) != 0;
}

// Messages that there are none of need no path, and copies to the host and back are needed anyway.
bool Selector::is_path_allowed(std::size_t index, Look look) const {
  const std::string_view path = algorithms_[index]->path();
  return rules_.path.allows(path) || (look == Look::all_alone && context_.layout.size == 1 &&
                                      (path == paths::exchange || path == paths::staged));
}

// What no order can change is the same everywhere; what has no exact form depends on the ranks.
Reproducibility Selector::promise(std::size_t index, const Request& request) const {
  const DataType dtype = request.inputs.dtype();
  const ReduceKind kind = request.op.kind();
  if (!reduces(request.type) || !order_matters(dtype, kind)) return Reproducibility::size;
  const Reproducibility promised = algorithms_[index]->promises(request);
  const bool has_exact_form = refusal(dtype, kind, Reproducibility::size).empty();
  return has_exact_form ? promised : std::min(promised, Reproducibility::placement);
}

// Why a promise is less than what the group asks for.
std::string Selector::shortfall(Reproducibility promised, const Request& request) const {
  const Reproducibility asked = rules_.reproducibility;
  std::string reason = refusal(request.inputs.dtype(), request.op.kind(), asked);
  if (!reason.empty()) return reason;
  std::string_view why = "what it computes depends on the number of ranks";
  if (promised == Reproducibility::runs) why = "the order of its steps depends on the placement";
  if (promised == Reproducibility::ranks) why = "it may take its steps in any order";
  return fmt::format("not reproducible enough: {}, but the group asks for '{}'", why,
                     to_string(asked));
}

Cost Selector::cost_of(std::size_t index, const std::optional<PlanQuery>& query) const {
  if (!query) return {};
  return predict(algorithms_[index]->model(), *query, context_);
}

std::string Selector::held_back(std::size_t index, const std::optional<PlanQuery>& query) const {
  if (!query) return "";
  return hymn::held_back(algorithms_[index]->model(), *query, context_);
}

Candidate Selector::ask(std::size_t index, const Request& request,
                        const std::optional<PlanQuery>& query, Look look) const {
  const Algorithm& algorithm = *algorithms_[index];
  Candidate candidate;
  candidate.path = algorithm.path();
  candidate.algorithm = algorithm.model().name_for(request.type);
  if (!is_path_allowed(index, look)) {
    candidate.reason = fmt::format("not allowed by the path setting '{}'", rules_.path.text());
  } else if (!is_allowed(index, request.type)) {
    candidate.reason = fmt::format("not allowed by the algorithm setting '{}'", rules_.algo.text());
  } else if (!algorithm.takes(request.memory())) {
    candidate.reason = where(request);
  } else {
    Verdict verdict = algorithm.can_run(request);
    candidate.can_run = verdict.ok;
    candidate.reason = std::move(verdict.reason);
    if (!candidate.can_run) return candidate;
    candidate.reason = held_back(index, query);
    candidate.can_run = candidate.reason.empty();
    if (!candidate.can_run) return candidate;
    candidate.promises = promise(index, request);
    candidate.can_run = candidate.promises >= rules_.reproducibility;
    if (!candidate.can_run) candidate.reason = shortfall(candidate.promises, request);
  }
  return candidate;
}

std::size_t Selector::search(const Request& request) const {
  std::optional<std::size_t> chosen = search(request, Look::by_path_setting);
  if (!chosen) chosen = search(request, Look::all_alone);
  if (!chosen) refuse(request);
  return *chosen;
}

std::optional<std::size_t> Selector::search(const Request& request, Look look) const {
  const std::optional<PlanQuery> query = plan_query(request, context_.layout.size);
  std::optional<std::size_t> chosen;
  Cost cost;
  for (std::size_t i = 0; i < algorithms_.size(); ++i) {
    if (!is_path_allowed(i, look) || !is_allowed(i, request.type) ||
        !algorithms_[i]->takes(request.memory()) || !algorithms_[i]->can_run(request).ok ||
        !held_back(i, query).empty() || promise(i, request) < rules_.reproducibility)
      continue;
    Cost other = cost_of(i, query);
    if (chosen && !is_faster(other, cost)) continue;
    chosen = i;
    cost = std::move(other);
    if (!query) break;
  }
  return chosen;
}

void Selector::refuse(const Request& request) const {
  if (reduces(request.type) && request.op.kind() != ReduceKind::opaque &&
      request.inputs.dtype() != DataType::opaque) {
    const std::string reason =
        refusal(request.inputs.dtype(), request.op.kind(), rules_.reproducibility);
    if (!reason.empty())
      throw UnsupportedError(fmt::format("{} of {}: {}", to_string(request.op.kind()),
                                         to_string(request.inputs.dtype()), reason));
  }
  std::vector<std::string> reasons = missing(request.type);
  for (const Candidate& candidate : explain(request).candidates)
    reasons.push_back(
        fmt::format("{} ({}): {}", candidate.path, candidate.algorithm, candidate.reason));
  if (reasons.empty()) reasons.emplace_back("there is none");
  throw UnsupportedError(fmt::format("no path can carry this: {}", fmt::join(reasons, "; ")),
                         {.remedy = remedy()});
}

// What the setting names for this collective, and this group does not have.
std::vector<std::string> Selector::missing(OpType type) const {
  std::vector<std::string> reasons;
  for (const std::string& name : rules_.algo.only_for(type))
    if (std::none_of(algorithms_.begin(), algorithms_.end(), [&](const auto& algorithm) {
          return algorithm->serves(type) && algorithm->model().name_for(type) == name;
        }))
      reasons.push_back(fmt::format("this group has no {}", name));
  return reasons;
}

std::string Selector::remedy() const {
  std::string remedy;
  if (!rules_.path.text().empty() || !rules_.algo.text().empty())
    remedy =
        "allow more paths in HYMN_PATH, more algorithms in HYMN_ALGO, or both in the group's "
        "options";
  if (rules_.reproducibility != Reproducibility::ranks)
    remedy += fmt::format("{}ask for less in HYMN_REPRODUCIBLE or the group's options",
                          remedy.empty() ? "" : "; or ");
  return remedy;
}

Explanation Selector::explain(const Request& request) const {
  Explanation explanation = explain(request, Look::by_path_setting);
  return explanation.algorithm.empty() ? explain(request, Look::all_alone) : explanation;
}

Explanation Selector::explain(const Request& request, Look look) const {
  const std::optional<PlanQuery> query = plan_query(request, context_.layout.size);
  Explanation explanation;
  Cost chosen;
  for (std::size_t i = 0; i < algorithms_.size(); ++i) {
    if (!algorithms_[i]->serves(request.type)) continue;
    Candidate candidate = ask(i, request, query, look);
    if (candidate.can_run) {
      Cost cost = cost_of(i, query);
      candidate.predicted_us = cost.seconds * 1e6;
      candidate.cost_source = cost.source;
      if (explanation.algorithm.empty() || is_faster(cost, chosen)) {
        explanation.path = candidate.path;
        explanation.algorithm = candidate.algorithm;
        explanation.predicted_us = candidate.predicted_us;
        chosen = std::move(cost);
      }
    }
    explanation.candidates.push_back(std::move(candidate));
  }
  return explanation;
}

std::vector<AlgorithmUse> Selector::uses() const {
  std::vector<AlgorithmUse> uses;
  const auto add = [&uses](const Algorithm& algorithm, OpType type, std::uint64_t count) {
    if (count > 0)
      uses.push_back(
          {std::string(algorithm.path()), std::string(algorithm.model().name_for(type)), count});
  };
  for (const auto& algorithm : algorithms_) {
    for (const OpType type : all_op_types)
      if (is_collective(type)) add(*algorithm, type, algorithm->uses(type));
    add(*algorithm, OpType::send, algorithm->uses(OpType::send) + algorithm->uses(OpType::recv));
  }
  return uses;
}

}  // namespace hymn
