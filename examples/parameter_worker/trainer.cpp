#include "examples/parameter_worker/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <functional>
#include <numeric>
#include <utility>

namespace parameter_worker {
namespace {

constexpr std::size_t sample_size = 2000;
/// Words that occur less often have no neighbours to speak of.
constexpr std::uint64_t least_count = 10;

template <class... Values>
void print(const hymn::ProcessGroup& group, fmt::format_string<Values...> format,
           Values&&... values) {
  if (group.rank() != 0) return;
  fmt::print(format, std::forward<Values>(values)...);
  std::fflush(stdout);
}

/// What a member of the group takes of a list.
std::span<const std::uint32_t> share_of(const hymn::ProcessGroup& group,
                                        std::span<const std::uint32_t> places) {
  const hymn::Shard own = hymn::shard(places.size(), group);
  return own.empty() ? places.first(0) : places.subspan(own[0], own.size());
}

float cosine(std::span<const float> a, std::span<const float> b) {
  const auto product = [](auto x, auto y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0f);
  };
  return product(a, b) / std::sqrt(product(a, a) * product(b, b));
}

/// Which of the vectors [… x width] have the least angles to this one.
std::vector<std::size_t> most_alike(std::span<const float> vectors, std::size_t width,
                                    std::size_t own, std::size_t how_many) {
  std::vector<std::pair<float, std::size_t>> others;
  for (std::size_t i = 0; i * width < vectors.size(); ++i)
    if (i != own)
      others.emplace_back(
          cosine(vectors.subspan(own * width, width), vectors.subspan(i * width, width)), i);
  std::ranges::sort(others, std::greater());
  others.resize(std::min(how_many, others.size()));
  std::vector<std::size_t> found;
  for (const auto& [likeness, i] : others) found.push_back(i);
  return found;
}

}  // namespace

Trainer::Trainer(const hymn::ProcessGroup& trainers, hymn::rpc::Agent& agent, const Text& text,
                 const Settings& settings)
    : group_(trainers),
      text_(text),
      settings_(settings),
      embedding_(agent, "trainer0", settings.width),
      model_(text, settings) {}

void Trainer::train() {
  with_those_left([&] { train_epochs(); });
}

double Trainer::loss() {
  double mean = 0;
  with_those_left([&] { mean = mean_loss(); });
  return mean;
}

template <class Do>
void Trainer::with_those_left(Do make) {
  while (!unless_trainer_lost(make))
    while (!unless_trainer_lost([&] { regroup(); })) {
    }
}

/// False when another trainer was lost meanwhile.
template <class Do>
bool Trainer::unless_trainer_lost(Do make) {
  try {
    make();
    return true;
  } catch (const hymn::Error& error) {
    using hymn::ErrorKind;
    if (error.kind() != ErrorKind::peer && error.kind() != ErrorKind::aborted) throw;
    fmt::print("trainer{} after {} steps: {}\n", group_.global_rank(group_.rank()), at_.steps,
               error.problem());
    std::fflush(stdout);
  }
  return false;
}

void Trainer::train_epochs() {
  while (at_.epoch < settings_.epochs) {
    const std::vector<std::uint32_t> places = places_of_epoch(text_, settings_.seed, at_.epoch);
    while (at_.places < places.size()) step(std::span(places).subspan(at_.places));
    report_epoch();
    at_ = {.epoch = at_.epoch + 1, .steps = at_.steps};
  }
}

/// Takes from what is left of the epoch. Until it is complete nothing of it counts: when a trainer
/// is lost, the others divide the same places anew. (Rows may have learnt from them already.)
void Trainer::step(std::span<const std::uint32_t> places) {
  const std::size_t taken =
      std::min(places.size(), settings_.batch * static_cast<std::size_t>(group_.size()));
  const auto own = share_of(group_, places.first(taken));
  const Lookup lookup = model_.look_up_places(own);
  const std::vector<float> rows = embedding_.fetch(lookup.rows);
  Gradients gradients =
      model_.compute(own, lookup, rows, 1 + static_cast<std::uint64_t>(at_.epoch));
  if (group_.global_rank(group_.rank()) == settings_.lose_rank && at_.steps == settings_.lose_at)
    std::raise(SIGKILL);
  embedding_.step(lookup.rows, gradients.rows, settings_.rate);
  // When this has ended all have made their step of the embedding, too.
  group_.all_reduce(gradients.shared);
  model_.step(gradients);
  at_.places += taken;
  ++at_.steps;
  at_.loss += gradients.loss();
  at_.pairs += gradients.pairs();
}

void Trainer::report_epoch() const {
  print(group_, "{:>7}{:>10}{:>9}{:>10.3f}\n", at_.epoch + 1, group_.size(), at_.steps,
        at_.loss / at_.pairs);
}

/// The trainers that are left go on, in a group of their own, from where the one is that has come
/// furthest: some may have made the step in which the trainer was lost, and others not.
void Trainer::regroup() {
  group_ = group_.shrink();
  std::vector<std::int64_t> steps(static_cast<std::size_t>(group_.size()));
  group_.all_gather(hymn::view_of(std::as_const(at_.steps)), steps);
  const int furthest =
      group_.global_rank(static_cast<int>(std::ranges::max_element(steps) - steps.begin()));
  // Not in place: if this fails, too, the model must still be whole.
  std::vector<float> state(model_.state().begin(), model_.state().end());
  Progress progress = at_;
  group_.broadcast(state, furthest);
  hymn::broadcast_object(group_, progress, furthest);
  std::ranges::copy(state, model_.state().begin());
  at_ = progress;
}

double Trainer::mean_loss() {
  std::vector<std::uint32_t> sample;
  for (std::size_t i = 0; i < sample_size; ++i)
    sample.push_back(static_cast<std::uint32_t>(i * text_.tokens.size() / sample_size));
  const auto own = share_of(group_, sample);
  const Lookup lookup = model_.look_up_places(own);
  const Gradients mine = model_.compute(own, lookup, embedding_.fetch(lookup.rows), 0);
  std::array<double, 2> sums = {mine.loss(), mine.pairs()};
  group_.all_reduce(sums);
  return sums[0] / sums[1];
}

std::vector<std::string> Trainer::nearest(const std::vector<std::string>& words,
                                          std::size_t how_many) {
  std::vector<WordId> known;
  for (WordId word = 0; word < text_.words.size(); ++word)
    if (text_.counts[word] >= least_count) known.push_back(word);
  const Lookup lookup = model_.look_up(known);
  const std::vector<float> vectors = model_.vectors(lookup, embedding_.fetch(lookup.rows));
  std::vector<std::string> lines;
  for (const std::string& word : words) {
    const auto found = std::ranges::find(known, word, [&](WordId id) { return text_.words[id]; });
    if (found == known.end()) continue;
    std::string line;
    for (const std::size_t other : most_alike(
             vectors, settings_.width, static_cast<std::size_t>(found - known.begin()), how_many))
      line += fmt::format("{}{}", line.empty() ? "" : ", ", text_.words[known[other]]);
    lines.push_back(fmt::format("{:>12}: {}", word, line));
  }
  return lines;
}

}  // namespace parameter_worker
