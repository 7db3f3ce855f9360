// mpirun -n 6 parameter_worker [FOLDER]: learns words from the texts in a folder. The last two
// ranks are workers, each of which keeps a part of an embedding that is too large for one of them;
// the others are trainers, which fetch the rows that they need and send back what these have to
// learn. One of them may be lost (--lose-rank, with mpirun --enable-recovery or hymn run
// --keep-going): the others go on.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <hymn/hymn.hpp>
#include <hymn/objects.hpp>
#include <hymn/rpc.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "examples/parameter_worker/embedding.hpp"
#include "examples/parameter_worker/settings.hpp"
#include "examples/parameter_worker/text.hpp"
#include "examples/parameter_worker/trainer.hpp"

namespace parameter_worker {
namespace {

const std::vector<std::string> shown_words = {"license",    "software", "copies",
                                              "distribute", "warranty", "you"};

int trainers_of(const hymn::World& world, const Settings& settings) {
  return world.size() - settings.workers;
}

std::vector<std::string> worker_names(const Settings& settings) {
  std::vector<std::string> names;
  for (int i = 0; i < settings.workers; ++i) names.push_back(fmt::format("worker{}", i));
  return names;
}

std::string own_name(const hymn::World& world, const Settings& settings) {
  const int worker = world.rank() - trainers_of(world, settings);
  return worker >= 0 ? fmt::format("worker{}", worker) : fmt::format("trainer{}", world.rank());
}

/// Everybody gets what rank 0 reads; nothing where it cannot, which it says.
std::optional<Text> load(hymn::World& world, const Settings& settings) {
  std::optional<Text> text;
  if (world.rank() == 0) {
    try {
      text = read_text(settings.folder);
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "parameter_worker: %s\n", error.what());
    }
  }
  hymn::broadcast_object(world.group(), text, 0);
  return text;
}

/// That one worker alone cannot have it all is shown first.
void place_embedding(hymn::rpc::Agent& agent, const Settings& settings) {
  const ShardShape whole{.rows = settings.rows, .width = settings.width, .seed = settings.seed};
  const std::vector<std::string> workers = worker_names(settings);
  fmt::print("embedding of {} rows of {} numbers: {:.1f} MB\n", whole.rows, whole.width,
             megabytes(whole.bytes()));
  if (settings.workers > 1) {
    const std::string refused = why_refused(agent, whole, workers.front());
    fmt::print("  worker0 alone: {}\n", refused.empty() ? "it has room for all of it" : refused);
  }
  make_embedding(agent, whole, workers);
  fmt::print("  {} workers: each has {:.1f} MB of it\n\n", settings.workers,
             megabytes(whole.bytes()) / settings.workers);
  std::fflush(stdout);
}

void report(Trainer& trainer, int trainers, double before, double after) {
  fmt::print("\nloss of a sample of the text: {:.3f} before, {:.3f} after\n", before, after);
  fmt::print("words that are most alike:\n");
  for (const std::string& line : trainer.nearest(shown_words, 6)) fmt::print("{}\n", line);
  fmt::print("\n{} of {} trainers have made {} steps to the end", trainer.group().size(), trainers,
             trainer.progress().steps);
  for (int rank = 0; rank < trainers; ++rank)
    if (std::ranges::count(trainer.group().membership().ranks, rank) == 0)
      fmt::print("; trainer{} was lost", rank);
  fmt::print("\n");
  for (const ShardReport& shard : trainer.embedding().report())
    fmt::print("{}: {} of {} rows have learnt; {} rows fetched, {} gradients taken\n", shard.worker,
               shard.learnt, shard.rows, shard.given, shard.taken);
  std::fflush(stdout);
}

void learn(hymn::World& world, hymn::ProcessGroup& group, hymn::rpc::Agent& agent, const Text& text,
           const Settings& settings) {
  if (world.rank() == 0) place_embedding(agent, settings);
  Trainer trainer(group, agent, text, settings);
  const double before = trainer.loss();
  if (world.rank() == 0) {
    fmt::print("{:>7}{:>10}{:>9}{:>10}\n", "epoch", "trainers", "steps", "loss");
    std::fflush(stdout);
  }
  trainer.train();
  const double after = trainer.loss();
  if (trainer.group().rank() == 0) report(trainer, trainers_of(world, settings), before, after);
}

/// False where the workers refuse the embedding, which all trainers hear.
bool serve_or_learn(hymn::World& world, hymn::ProcessGroup& group, hymn::rpc::Agent& agent,
                    const Text& text, const Settings& settings) {
  try {
    if (group.is_member()) learn(world, group, agent, text, settings);
    return true;
  } catch (const hymn::ResourceError& error) {
    if (world.rank() == 0) std::fprintf(stderr, "parameter_worker: %s\n", error.what());
  }
  return false;
}

bool run(hymn::World& world, const Settings& settings) {
  const int trainers = trainers_of(world, settings);
  if (trainers < 1) {
    if (world.rank() == 0)
      std::fprintf(stderr, "parameter_worker: %d workers leave no trainer of %d ranks\n",
                   settings.workers, world.size());
    return false;
  }
  const std::optional<Text> text = load(world, settings);
  if (!text) return false;
  if (world.rank() == 0)
    fmt::print("{} words, {} of them different; {} trainers, {} workers\n", text->tokens.size(),
               text->words.size(), trainers, settings.workers);
  std::vector<int> ranks(static_cast<std::size_t>(trainers));
  std::iota(ranks.begin(), ranks.end(), 0);
  hymn::ProcessGroup group = world.new_group(ranks, {.description = "trainers"});
  limit_worker_memory(settings.worker_mb * 1000000);
  hymn::rpc::Agent agent(world, own_name(world, settings));
  const bool good = serve_or_learn(world, group, agent, *text, settings);
  // A trainer that has come to the end must not be waited for by others that regroup: it leaves the
  // world, and has its agent still.
  world.destroy();
  // Workers come here at once, and are called until the trainers have come, too.
  agent.shutdown(hymn::Timeout::none());
  return good;
}

void declare(CLI::App& app, Settings& settings) {
  app.add_option("folder", settings.folder, "Where the texts are")->capture_default_str();
  app.add_option("--workers", settings.workers)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--rows", settings.rows, "Of the embedding")
      ->check(CLI::Range(1u, 1u << 30))
      ->capture_default_str();
  app.add_option("--width", settings.width, "Numbers in a row")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--worker-mb", settings.worker_mb, "Memory that a worker gives")
      ->capture_default_str();
  app.add_option("--epochs", settings.epochs)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--batch", settings.batch, "Words of a trainer in a step")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--rate", settings.rate, "Learning rate")->capture_default_str();
  app.add_option("--seed", settings.seed)->capture_default_str();
  app.add_option("--lose-rank", settings.lose_rank, "Kills itself; the others go on");
  app.add_option("--lose-at", settings.lose_at, "After so many steps")->capture_default_str();
}

}  // namespace
}  // namespace parameter_worker

int main(int argc, char** argv) {
  try {
    CLI::App app("Learns words, whose vectors lie on several workers.");
    parameter_worker::Settings settings;
    parameter_worker::declare(app, settings);
    CLI11_PARSE(app, argc, argv);
    // So that the others go on wherever a rank dies, in MPI's calls, too.
    hymn::World world({.thread_level = hymn::ThreadLevel::multiple});
    return parameter_worker::run(world, settings) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parameter_worker: %s\n", error.what());
  }
  return 1;
}
