// What the reduction of gradients adds to a step of training, and how much of it goes on behind the
// backward pass: hymn::torch::DistributedDataParallel on two nets of libtorch, without and with a
// progress thread.
//
//   scripts/mpirun -n 2 --bind-to core build/bin/bench_training
//
// `compute` is a step that reduces nothing (no_sync), `all_reduce` a reducer whose buckets are
// full, `reduction` one that gets the same gradients at once, with nothing to compute, and copies
// them as the wrapper does: to the buckets, and back with --copy-back; `step` has all. They, and
// worlds without and with a progress thread, take turns. Inputs change in each iteration, and
// gradients are compared with plain averages. Here is the C API alone: so it compiles for torch's
// wheels, too, whose C++ library has another ABI; bench/torch_ddp_gloo.py measures torch's own
// DistributedDataParallel there.
#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/training_nets.hpp"
#include "hymn/torch.hpp"
#include "tools/bench/figures.hpp"

namespace {

namespace ht = hymn::torch;
using Json = nlohmann::ordered_json;
using bench::Net;
using bench::some_numbers;
using Clock = std::chrono::steady_clock;

struct Options {
  std::size_t rounds = 7;
  std::size_t iterations = 5;  ///< in a turn
  std::size_t bucket_mb = 4;
  int curve = 8;  ///< steps
  bool copy_back = false;
  bool json = false;
};

class World {
 public:
  explicit World(bool progress) {
    hymnWorldOptions_t options = HYMN_WORLD_OPTIONS_INIT;
    options.progress_thread = progress ? 1 : -1;
    options.thread_level = hymnThreadMultiple;  // one world begins MPI for all
    ht::check(hymnInit(&world_, &options));
    ht::check(hymnWorldRank(world_, &rank_));
    ht::check(hymnWorldGroup(world_, &group_));
  }
  ~World() { hymnFinalize(world_); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  ht::Group group() const { return group_; }
  int size() const { return group().size(); }
  void meet() const { ht::check(hymnBarrier(group_, nullptr)); }
  double slowest(double value) const {
    const at::Tensor tensor = at::full({1}, value, at::kDouble);
    ht::all_reduce(tensor, group(), hymnMax);
    return tensor.item<double>();
  }

 private:
  hymnWorld_t world_ = nullptr;
  hymnGroup_t group_ = nullptr;
  int rank_ = 0;
};

/// A reducer without a framework, as the wrapper has it, for gradients that are there at once.
class Reduction {
 public:
  Reduction(const World& world, const Net& net, const ht::DdpOptions& ddp)
      : stays_in_buckets_(ddp.gradient_as_bucket_view) {
    std::vector<hymnParameter_t> parameters;
    for (const at::Tensor& each : net.parameters()) {
      values_.push_back(each.detach());
      gradients_.push_back(at::zeros_like(each));
      hymnParameter_t parameter = HYMN_PARAMETER_INIT;
      parameter.name = "one";
      parameter.data = values_.back().data_ptr();
      parameter.shape = values_.back().sizes().data();
      parameter.dimensions = values_.back().sizes().size();
      parameters.push_back(parameter);
    }
    views_.resize(gradients_.size());
    hymnReducerOptions_t options = HYMN_REDUCER_OPTIONS_INIT;
    options.first_bucket_bytes = ddp.first_bucket_bytes;
    options.bucket_bytes = ddp.bucket_bytes;
    options.gradient_as_bucket_view = 1;
    hymnGradientReducer_t reducer = nullptr;
    ht::check(hymnGradientReducerCreate(world.group().handle(), parameters.data(),
                                        parameters.size(), &options, &reducer));
    reducer_.reset(reducer);
  }

  void fill(const std::vector<at::Tensor>& gradients) {
    for (std::size_t i = 0; i < gradients_.size(); ++i) gradients_[i].copy_(gradients[i]);
  }
  /// Of what lies in the buckets.
  void all_reduce(std::size_t iteration) {
    reduce([&](std::size_t i) { alter(views_[i], iteration); });
  }
  /// With the copies that a wrapper makes.
  void run(std::size_t iteration) {
    reduce([&](std::size_t i) {
      alter(gradients_[i], iteration);
      views_[i].copy_(gradients_[i]);
    });
    if (stays_in_buckets_) return;
    for (std::size_t i = 0; i < gradients_.size(); ++i) gradients_[i].copy_(views_[i]);
  }

 private:
  template <class Fill>
  void reduce(Fill fill) {
    ht::check(hymnGradientReducerPrepare(reducer_.get()));
    find_places();
    for (std::size_t i = gradients_.size(); i-- > 0;) {
      fill(i);
      ht::check(hymnGradientReducerReady(reducer_.get(), i, nullptr));
    }
    ht::check(hymnGradientReducerFinish(reducer_.get()));
  }
  /// Buckets are made anew after the first iteration.
  void find_places() {
    for (std::size_t i = 0; i < views_.size(); ++i) {
      void* place = nullptr;
      ht::check(hymnGradientReducerGradient(reducer_.get(), i, &place, nullptr));
      if (!views_[i].defined() || views_[i].data_ptr() != place)
        views_[i] = at::from_blob(place, gradients_[i].sizes());
    }
  }
  static void alter(const at::Tensor& gradient, std::size_t iteration) {
    gradient.view({-1})[0] = static_cast<double>(iteration % 16);
  }

  bool stays_in_buckets_;
  std::vector<at::Tensor> values_;
  std::vector<at::Tensor> gradients_;
  std::vector<at::Tensor> views_;
  ht::Owned<hymnGradientReducer_t> reducer_{nullptr, &hymnGradientReducerFree};
};

/// One net in one world.
class Training {
 public:
  Training(const World& world, const std::shared_ptr<Net>& net, const ht::DdpOptions& options)
      : world_(world),
        net_(net),
        base_(some_numbers(net->input_sizes(), 1000 + world.rank())),
        ddp_(net, world.group(), options),
        reduction_(world, *net, options) {}

  double compute(std::size_t iteration) {
    const auto alone = ddp_.no_sync();
    return step(iteration);
  }
  /// The loss.
  double step(std::size_t iteration) {
    for (at::Tensor& each : net_->parameters()) each.mutable_grad().reset();
    const at::Tensor input = base_.roll(static_cast<std::int64_t>(iteration % 16), -1);
    const at::Tensor loss = at::mse_loss(ddp_(input), net_->target(input));
    loss.backward();
    return loss.item<double>();
  }
  void all_reduce(std::size_t iteration) { reduction_.all_reduce(iteration); }
  void reduce(std::size_t iteration) { reduction_.run(iteration); }

  /// The reduction gets what a step of this iteration's gives. False where the gradients of a step
  /// are not plain averages of what the ranks compute alone.
  bool prepare(std::size_t iteration) {
    compute(iteration);
    std::vector<at::Tensor> alone = gradients();
    reduction_.fill(alone);
    step(iteration);
    bool good = true;
    std::size_t i = 0;
    for (const at::Tensor& each : gradients()) {
      at::Tensor& average = alone[i++];
      ht::all_reduce(average, world_.group());
      average /= world_.size();
      good = good && at::allclose(each, average, 1e-4, 1e-6);
    }
    return good;
  }
  void descend(double rate) {
    const c10::NoGradGuard no_grad;
    for (at::Tensor& each : net_->parameters()) each.sub_(each.grad(), rate);
  }

 private:
  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> copies;
    for (const at::Tensor& each : net_->parameters()) copies.push_back(each.grad().clone());
    return copies;
  }

  const World& world_;
  std::shared_ptr<Net> net_;
  at::Tensor base_;
  ht::DistributedDataParallel<std::shared_ptr<Net>> ddp_;
  Reduction reduction_;
};

/// Milliseconds, one figure for each round.
struct Figures {
  std::vector<double> compute;
  std::vector<double> all_reduce;
  std::vector<double> reduction;
  std::vector<double> step;
};

/// What follows from those of a round, medians over them.
struct Ratios {
  explicit Ratios(const Figures& figures) {
    std::vector<double> of_hidden, of_share, of_beyond;
    for (std::size_t i = 0; i < figures.step.size(); ++i) {
      const double compute = figures.compute[i];
      const double reduction = figures.reduction[i];
      const double step = figures.step[i];
      of_hidden.push_back((compute + reduction - step) / reduction);
      of_share.push_back(figures.all_reduce[i] / step);
      of_beyond.push_back(step / std::max(compute, reduction));
    }
    hidden = hymn::figures_of(of_hidden).median;
    share = hymn::figures_of(of_share).median;
    beyond = hymn::figures_of(of_beyond).median;
  }
  double hidden = 0;
  double share = 0;
  double beyond = 0;
};

template <class Call>
double time_turn(const World& world, std::size_t iterations, Call call) {
  world.meet();
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < iterations; ++i) call(i);
  const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
  return world.slowest(took.count() / static_cast<double>(iterations));
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {
    ddp_.bucket_bytes = options.bucket_mb << 20;
    ddp_.gradient_as_bucket_view = !options.copy_back;
  }

  template <class OneNet>
  void show_net() {
    show_curve<OneNet>();
    Figures figures[2];
    for (std::size_t round = 0; round < options_.rounds; ++round)
      for (const bool progress : {round % 2 == 0, round % 2 != 0})
        measure<OneNet>(progress, figures[progress ? 1 : 0]);
    for (const bool progress : {false, true}) {
      const Figures& some = figures[progress ? 1 : 0];
      if (options_.json)
        add_object<OneNet>(progress, some);
      else
        row(progress, some);
    }
  }
  void introduce();
  void finish() const {
    if (options_.json && is_first_) fmt::print("{}\n", objects_.dump(2));
  }
  bool had_wrong_results() const { return wrong_; }

 private:
  template <class OneNet>
  void show_curve() {
    const World world(false);
    Training training(world, bench::make_net<OneNet>(), ddp_);
    std::string losses;
    for (int step = 0; step < options_.curve; ++step) {
      const at::Tensor loss =
          at::full({1}, training.step(static_cast<std::size_t>(step)), at::kDouble);
      training.descend(OneNet::rate);
      ht::all_reduce(loss, world.group(), hymnAvg);
      losses += fmt::format(" {:.6f}", loss.item<double>());
    }
    if (!prints_table()) return;
    fmt::print("\n{}, {:.1f} MB of gradients; loss of the first steps:{}\n", OneNet::title,
               bench::gradient_mb(*bench::make_net<OneNet>()), losses);
    fmt::print("  {:<4}{:>22}{:>22}{:>22}{:>22}{:>8}{:>17}{:>17}\n", "", "compute, ms",
               "all_reduce, ms", "reduction, ms", "step, ms", "hidden", "all_reduce/step",
               "step/the larger");
  }

  template <class OneNet>
  void measure(bool progress, Figures& figures) {
    const World world(progress);
    Training training(world, bench::make_net<OneNet>(), ddp_);
    // Buckets are made anew after the first iteration.
    for (std::size_t i = 0; i < 3; ++i) {
      if (!training.prepare(i)) wrong_ = true;
      training.all_reduce(i);
      training.reduce(i);
    }
    const std::size_t n = options_.iterations;
    figures.compute.push_back(time_turn(world, n, [&](std::size_t i) { training.compute(i); }));
    figures.all_reduce.push_back(
        time_turn(world, n, [&](std::size_t i) { training.all_reduce(i); }));
    figures.reduction.push_back(time_turn(world, n, [&](std::size_t i) { training.reduce(i); }));
    figures.step.push_back(time_turn(world, n, [&](std::size_t i) { training.step(i); }));
    if (!training.prepare(n)) wrong_ = true;
    wrong_ = world.slowest(wrong_ ? 1 : 0) > 0;
  }
  void row(bool progress, const Figures& figures) const;
  template <class OneNet>
  void add_object(bool progress, const Figures& figures);
  bool prints_table() const { return is_first_ && !options_.json; }

  Options options_;
  ht::DdpOptions ddp_{};
  int ranks_ = 0;
  bool is_first_ = true;
  bool wrong_ = false;
  Json objects_ = Json::array();
};

void Bench::introduce() {
  const World world(false);
  is_first_ = world.rank() == 0;
  ranks_ = world.size();
  if (prints_table())
    fmt::print(
        "# hymn {}, torch {}, {} ranks of one thread, progress threads off and on; {} turns of {} "
        "steps, medians (least, greatest); buckets of 1 and {} MB{}\n",
        hymnGetVersion(), TORCH_VERSION, world.size(), options_.rounds, options_.iterations,
        options_.bucket_mb, options_.copy_back ? ", averages copied back" : "");
}

std::string text_of(const std::vector<double>& values) {
  const hymn::BenchTimes times = hymn::figures_of(values);
  return fmt::format("{:.1f} ({:.1f}, {:.1f})", times.median, times.min, times.max);
}

void Bench::row(bool progress, const Figures& figures) const {
  if (!prints_table()) return;
  const Ratios ratios(figures);
  fmt::print("  {:<4}{:>22}{:>22}{:>22}{:>22}{:>6.0f} %{:>17.3f}{:>17.3f}\n",
             progress ? "on" : "off", text_of(figures.compute), text_of(figures.all_reduce),
             text_of(figures.reduction), text_of(figures.step), 100 * ratios.hidden, ratios.share,
             ratios.beyond);
  std::fflush(stdout);
}

template <class OneNet>
void Bench::add_object(bool progress, const Figures& figures) {
  Json object{{"net", OneNet::title},
              {"gradient_mb", bench::gradient_mb(*bench::make_net<OneNet>())},
              {"torch", TORCH_VERSION},
              {"ranks", ranks_},
              {"progress_thread", progress},
              {"copy_back", options_.copy_back},
              {"bucket_mb", options_.bucket_mb},
              {"rounds", options_.rounds},
              {"iterations", options_.iterations}};
  const auto add = [&](const std::string& name, const std::vector<double>& values) {
    const hymn::BenchTimes times = hymn::figures_of(values);
    object[name + "_ms"] = times.median;
    object[name + "_ms_min"] = times.min;
    object[name + "_ms_max"] = times.max;
  };
  add("compute", figures.compute);
  add("all_reduce", figures.all_reduce);
  add("reduction", figures.reduction);
  add("step", figures.step);
  const Ratios ratios(figures);
  object["hidden"] = ratios.hidden;
  object["all_reduce_share"] = ratios.share;
  object["step_to_larger"] = ratios.beyond;
  objects_.push_back(std::move(object));
}

int run(const Options& options) {
  at::set_num_threads(1);
  Bench bench(options);
  bench.introduce();
  bench.show_net<bench::TransformerBlock>();
  bench.show_net<bench::ConvNet>();
  bench.finish();
  if (!bench.had_wrong_results()) return 0;
  std::fprintf(stderr, "bench_training: gradients are not the averages\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Steps of training, with and without the reduction of gradients.");
  Options options;
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--iterations", options.iterations, "Steps in a turn")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--bucket-mb", options.bucket_mb)
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--curve", options.curve, "Steps whose loss is shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--copy-back", options.copy_back,
               "Averages leave the buckets (gradient_as_bucket_view = false)");
  app.add_flag("--json", options.json, "Print a list of flat objects");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_training: %s\n", error.what());
  }
  return 1;
}
