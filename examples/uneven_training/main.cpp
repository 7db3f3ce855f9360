// mpirun -n 4 uneven_training FILE.csv: trains a small network on samples of which the ranks have
// very different numbers, and shows what comes of it: with and without a join, and with work that
// goes to whoever is ready. docs/shards.md tells how to read what it prints.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <hymn/hymn.hpp>
#include <optional>

#include "examples/uneven_training/load.hpp"
#include "examples/uneven_training/trial.hpp"

namespace uneven {
namespace {

/// How far an accuracy may be from that of the training in one process, where the bits are not the
/// same: sums were rounded in another order, or steps hold other samples.
constexpr double tolerance = 0.03;

struct Options {
  std::string csv;
  std::string plot;
  std::vector<double> shares;  ///< empty: as many parts as ranks for rank 0, one for the last
  std::vector<std::string> ways = {"drop", "join", "steal"};
  std::string level = "placement";
  Settings settings{};
  double hang_seconds = 0;  ///< 0: not shown
};

std::vector<std::string> levels() {
  std::vector<std::string> names;
  for (std::size_t level = 0; level < hymn::reproducibility_count; ++level)
    names.emplace_back(hymn::to_string(static_cast<hymn::Reproducibility>(level)));
  return names;
}

hymn::Reproducibility level_of(const Options& options) {
  const std::vector<std::string> names = levels();
  return static_cast<hymn::Reproducibility>(std::ranges::find(names, options.level) -
                                            names.begin());
}

/// As the training in one process does. Below there is no such promise; at level `size` sums are
/// rounded only once.
bool adds_in_order(const Options& options) {
  return level_of(options) == hymn::Reproducibility::placement;
}

template <class... Values>
void print(const hymn::World& world, fmt::format_string<Values...> format, Values&&... values) {
  if (world.rank() != 0) return;
  fmt::print(format, std::forward<Values>(values)...);
  std::fflush(stdout);
}

std::vector<double> shares_of(const hymn::World& world, const Options& options) {
  std::vector<double> shares = options.shares;
  if (shares.empty())
    for (int rank = 0; rank < world.size(); ++rank) shares.push_back(world.size() - rank);
  return shares;
}

void introduce(const hymn::World& world, const Options& options, const Split& data,
               const Deal& deal) {
  print(world, "{}: {} samples for training, {} for the test; {} features, {} classes\n",
        options.csv, data.training.size(), data.test.size(), data.training.features,
        data.training.classes);
  print(world, "\n  {:>6}{:>10}{:>22}\n", "rank", "samples", "batches in an epoch");
  for (int rank = 0; rank < deal.ranks(); ++rank)
    print(world, "  {:>6}{:>10}{:>22}\n", rank, deal.samples_of(rank), deal.batches_of(rank));
}

/// False when something should have been said, and was not.
bool show_hang(hymn::World& world, const Options& options, const Split& data, const Deal& deal) {
  print(world, "\nWithout join, all_reduce limited to {} s, hymn says:\n", options.hang_seconds);
  const auto limit = std::chrono::duration_cast<hymn::Duration>(
      std::chrono::duration<double>(options.hang_seconds));
  const std::string words = verdict_without_join(world, data, deal, options.settings, limit);
  const bool is_uneven = deal.least_batches() != deal.most_batches();
  print(world, "  {}\n",
        !words.empty() ? words
        : is_uneven    ? "nothing, although ranks have run out"
                       : "nothing: all ranks have as many batches");
  return words.empty() != is_uneven;
}

std::vector<std::unique_ptr<Trial>> make_trials(hymn::World& world, const Options& options,
                                                const Split& data, const Deal& deal) {
  std::vector<std::unique_ptr<Trial>> trials;
  std::shared_ptr<hymn::Store> store;
  for (const Way way : {Way::drop, Way::shadow, Way::joinables, Way::steal}) {
    if (std::ranges::count(options.ways, to_string(way)) == 0) continue;
    if (way == Way::steal) {
      store = common_store(world);
      if (store == nullptr) {
        print(world, "\nleft out: steal, whose counter here is within reach of one host only\n");
        continue;
      }
    }
    trials.push_back(std::make_unique<Trial>(world, way, data, deal, options.settings,
                                             level_of(options), store));
  }
  return trials;
}

/// Epochs of all ways alternate, so that all of them meet the same moods of the machine.
void train(hymn::World& world, const Options& options, const Split& data, const Deal& deal,
           std::vector<std::unique_ptr<Trial>>& trials, Model& serial, Curve& alone) {
  print(world, "\n  {:>6}", "epoch");
  for (const auto& trial : trials)
    print(world, "{:>14}{:>10}", fmt::format("{}: loss", to_string(trial->way())), "accuracy");
  print(world, "{:>14}{:>10}\n", "serial: loss", "accuracy");
  for (int epoch = 0; epoch < options.settings.epochs; ++epoch) {
    print(world, "  {:>6}", epoch + 1);
    for (const auto& trial : trials) {
      trial->run_epoch(epoch);
      print(world, "{:>14.4f}{:>8.1f} %", trial->curve().loss.back(),
            100 * trial->curve().accuracy.back());
    }
    if (world.rank() == 0) {
      train_serially(serial, data.training, deal, epoch);
      alone.loss.push_back(serial.mean_loss());
      alone.accuracy.push_back(serial.accuracy(data.test));
      print(world, "{:>14.4f}{:>8.1f} %\n", alone.loss.back(), 100 * alone.accuracy.back());
    }
  }
}

/// Whether what is promised of this way holds, on rank 0; it says what does not.
bool judge(const hymn::World& world, const Options& options, Trial& trial, const Outcome& outcome,
           const Model& serial, const Curve& alone) {
  bool holds = true;
  const auto demand = [&](bool fulfilled, const char* what) {
    if (fulfilled) return;
    holds = false;
    print(world, "{}: {}\n", to_string(trial.way()), what);
  };
  demand(outcome.same_bits, "the ranks do not have the same model");
  if (world.rank() != 0 || trial.way() == Way::drop) return holds;
  demand(outcome.used_all_alike, "not every sample was used once in each epoch");
  const double off = std::abs(trial.curve().accuracy.back() - alone.accuracy.back());
  demand(off <= tolerance, "the accuracy is not that of the serial training");
  if (trial.way() == Way::steal || !adds_in_order(options)) return holds;
  demand(std::ranges::equal(trial.model().weights(), serial.weights()),
         "the weights are not those of the serial training, bit for bit");
  return holds;
}

/// Whether all holds, the same on all ranks.
bool report(hymn::World& world, const Options& options, const Deal& deal,
            std::vector<std::unique_ptr<Trial>>& trials, const Model& serial, const Curve& alone) {
  print(world, "\n  {:<10}{:>14}{:>14}{:>16}{:>12}{:>18}{:>12}\n", "", "samples used",
        "ms per epoch", "in all_reduce", "asking", "computed by rank", "accuracy");
  int holds = 1;
  for (const auto& trial : trials) {
    const Outcome outcome = trial->outcome(options.settings.epochs);
    print(world, "  {:<10}{:>14}{:>14.2f}{:>16.2f}{:>12.2f}{:>18}{:>10.1f} %\n",
          to_string(trial->way()), fmt::format("{} of {}", outcome.used, deal.samples()),
          outcome.ms, outcome.waited_ms, outcome.asked_ms,
          fmt::format("{} to {}", outcome.least_computed, outcome.most_computed),
          100 * trial->curve().accuracy.back());
    if (!judge(world, options, *trial, outcome, serial, alone)) holds = 0;
  }
  world.group().all_reduce(hymn::view_of(holds), hymn::ReduceOp::min);
  if (holds == 1)
    print(world,
          "\nchecked: all ranks have the same model; join uses every sample, and its weights {}\n",
          adds_in_order(options) ? "are those of the serial training, bit for bit"
                                 : "may differ from the serial training's in their last bits");
  return holds == 1;
}

bool write_plot(const Options& options, const std::vector<std::unique_ptr<Trial>>& trials,
                const Curve& alone) {
  std::vector<Curve> curves;
  for (const auto& trial : trials) curves.push_back(trial->curve());
  curves.push_back(alone);
  std::ofstream file(options.plot);
  file << draw_curves(curves, "Training with parts of uneven sizes");
  file.close();
  if (!file) std::fprintf(stderr, "uneven_training: %s cannot be written\n", options.plot.c_str());
  return static_cast<bool>(file);
}

bool run(hymn::World& world, const Options& options) {
  const std::optional<Split> data = load(world, options.csv, options.settings.seed);
  if (!data) return false;
  const std::vector<double> shares = shares_of(world, options);
  // What cannot be is refused here, on all ranks alike.
  hymn::shard(data->training.size(), world, {.weights = shares});
  const Deal deal(data->training.size(), shares, options.settings.batch, options.settings.seed);
  introduce(world, options, *data, deal);
  bool good = true;
  if (options.hang_seconds > 0) good = show_hang(world, options, *data, deal);

  std::vector<std::unique_ptr<Trial>> trials = make_trials(world, options, *data, deal);
  Model serial(data->training, options.settings);
  Curve alone{.name = "one process", .colour = "#1f2933", .dashed = true};
  train(world, options, *data, deal, trials, serial, alone);
  good = report(world, options, deal, trials, serial, alone) && good;
  if (!options.plot.empty() && world.rank() == 0) {
    good = write_plot(options, trials, alone) && good;
    if (good) print(world, "learning curves: {}\n", options.plot);
  }
  world.group().barrier();  // the store of rank 0 is in use until here
  return good;
}

void declare(CLI::App& app, Options& options) {
  app.add_option("csv", options.csv, "Numbers, and the class in the last column")->required();
  app.add_option("--shares", options.shares, "Of the ranks, for example 5,3,1")->delimiter(',');
  app.add_option("--ways", options.ways, "Which to try")
      ->delimiter(',')
      ->check(CLI::IsMember({"drop", "join", "joinables", "steal"}))
      ->capture_default_str();
  app.add_option("--without-join", options.hang_seconds,
                 "Show first what happens without, with a limit of so many seconds")
      ->check(CLI::PositiveNumber);
  app.add_option("--plot", options.plot, "Where learning curves are written, as SVG");
  app.add_option("--reproducible", options.level, "Level (docs/reproducibility.md)")
      ->check(CLI::IsMember(levels()))
      ->capture_default_str();
  Settings& settings = options.settings;
  app.add_option("--epochs", settings.epochs)->check(CLI::Range(1, 10000))->capture_default_str();
  app.add_option("--batch", settings.batch, "Samples of a rank in a step")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--hidden", settings.hidden, "Width of the hidden layer")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--rate", settings.rate, "Learning rate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", settings.seed)->capture_default_str();
}

}  // namespace
}  // namespace uneven

int main(int argc, char** argv) {
  try {
    CLI::App app("Trains a small network on parts of uneven sizes.");
    uneven::Options options;
    uneven::declare(app, options);
    CLI11_PARSE(app, argc, argv);
    hymn::World world;
    return uneven::run(world, options) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "uneven_training: %s\n", error.what());
  }
  return 1;
}
