// mpirun -n 2 torch_digits FILE.csv: trains a small convolution net of libtorch on pictures of
// digits, with hymn::torch::DistributedDataParallel: with parts that are even or not, with
// gradients that travel as bfloat16, and with a rank that is lost in the midst of it (mpirun
// --enable-recovery, or hymn run --keep-going).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "examples/torch_digits/serial.hpp"
#include "examples/torch_digits/trainer.hpp"
#include "examples/uneven_training/load.hpp"

namespace digits {
namespace {

struct Options {
  std::string csv;
  std::string hook = "none";
  std::string level = "placement";
  bool compare_serial = false;
  Settings settings{};
};

template <class... Values>
void print(const hymn::ProcessGroup& group, fmt::format_string<Values...> format,
           Values&&... values) {
  if (group.rank() != 0) return;
  fmt::print(format, std::forward<Values>(values)...);
  std::fflush(stdout);
}

void introduce(hymn::World& world, const Options& options, const uneven::Split& data) {
  const Settings& settings = options.settings;
  const uneven::Deal deal = deal_for(world.size(), data.training.size(), settings);
  std::string samples;
  for (int rank = 0; rank < deal.ranks(); ++rank)
    samples += fmt::format("{}{}", rank == 0 ? "" : ", ", deal.samples_of(rank));
  print(world.group(),
        "{} ranks with {} samples for training, {} for the test\n{:>7}{:>10}{:>12}\n", world.size(),
        samples, data.test.size(), "epoch", "loss", "accuracy");
}

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

/// The sum of gradients is in the order of ranks, whatever carried it, at the level `placement`
/// alone (docs/reproducibility.md).
bool adds_in_order(const Options& options) {
  return level_of(options) == hymn::Reproducibility::placement;
}

double difference(Net& net, Serial way, const uneven::Split& data, Trainer& trainer,
                  const Settings& settings) {
  const Pictures pictures(data.training);
  train_serially(way, net, pictures, trainer.stretches(), settings);
  return (flat(net) - flat(trainer.net())).abs().max().item<double>();
}

/// False where what is promised does not hold.
bool compare_serial(const Options& options, const uneven::Split& data, Trainer& trainer) {
  const auto compare = [&](Serial way) {
    Net net = make_net(Pictures(data.training), data.training.classes, options.settings);
    return difference(net, way, data, trainer, options.settings);
  };
  const double by_rank = compare(Serial::rank_by_rank);
  if (by_rank == 0)
    fmt::print("one process, rank by rank: the same weights, bit for bit\n");
  else
    fmt::print("one process, rank by rank: weights differ by up to {:.2g}{}\n", by_rank,
               adds_in_order(options) ? "" : ", as this level does not promise sums in its order");
  // That these are others is no fault: rounded sums depend on how they are bracketed.
  fmt::print(
      "one process, each step as one batch: weights differ by up to {:.2g}, as sums are {}\n",
      compare(Serial::as_one_batch),
      options.settings.bf16 ? "bracketed otherwise, and gradients not rounded to bfloat16"
                            : "bracketed otherwise");
  return by_rank == 0 || !adds_in_order(options);
}

bool run(hymn::World& world, const Options& options) {
  const std::optional<uneven::Split> data = uneven::load(world, options.csv, options.settings.seed);
  if (!data) return false;
  introduce(world, options, *data);
  Trainer trainer(world, *data, options.settings);
  trainer.train();
  const hymn::ProcessGroup group = trainer.group();  // of those that are left
  int good = trainer.is_same_on_all_ranks() ? 1 : 0;
  print(group, "{} ranks: {}\n", group.size(),
        good == 1 ? "all have the same weights, bit for bit" : "weights are not the same on all");
  if (options.compare_serial && group.rank() == 0 && !compare_serial(options, *data, trainer))
    good = 0;
  trainer.group().broadcast(hymn::view_of(good), trainer.group().global_rank(0));
  return good == 1;
}

void declare(CLI::App& app, Options& options) {
  app.add_option("csv", options.csv, "Square pictures, and what they show in the last column")
      ->required();
  Settings& settings = options.settings;
  CLI::Option* const uneven =
      app.add_flag("--uneven", settings.uneven, "Parts of several sizes, in a join");
  app.add_option("--hook", options.hook, "How gradients travel")
      ->check(CLI::IsMember({"none", "bf16"}))
      ->capture_default_str();
  app.add_option("--lose-rank", settings.lose_rank, "Kills itself; the others go on")
      ->excludes(uneven);
  app.add_option("--lose-at", settings.lose_at, "After so many steps")->capture_default_str();
  app.add_flag("--compare-serial", options.compare_serial,
               "Train once more, in one process, and compare the weights");
  app.add_option("--reproducible", options.level, "Level (docs/reproducibility.md)")
      ->check(CLI::IsMember(levels()))
      ->capture_default_str();
  app.add_option("--epochs", settings.epochs)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--batch", settings.batch, "Samples of a rank in a step")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--rate", settings.rate, "Learning rate")->capture_default_str();
  app.add_option("--seed", settings.seed)->capture_default_str();
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  try {
    CLI::App app("Trains a convolution net on pictures, on several ranks.");
    digits::Options options;
    digits::declare(app, options);
    CLI11_PARSE(app, argc, argv);
    options.settings.bf16 = options.hook == "bf16";
    // Ranks share the cores; and what threads add up, they may add up in another order.
    at::set_num_threads(1);
    // So that the others go on wherever a rank dies, in MPI's calls, too.
    hymn::World world({.thread_level = hymn::ThreadLevel::multiple,
                       .reproducibility = digits::level_of(options)});
    return digits::run(world, options) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "torch_digits: %s\n", error.what());
  }
  return 1;
}
