#include "examples/uneven_training/worker.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace uneven {
namespace {

using Clock = std::chrono::steady_clock;

/// Sums to which adding anything gives that, to the sign of a zero: what a rank has that gives
/// nothing.
void clear(std::span<float> sums) { std::ranges::fill(sums, -0.0f); }

}  // namespace

std::string_view to_string(Way way) {
  switch (way) {
    case Way::alone:
      return "no join";
    case Way::drop:
      return "drop";
    case Way::shadow:
      return "join";
    case Way::joinables:
      return "joinables";
    case Way::steal:
      return "steal";
  }
  return "unknown";
}

/// Lets a Join shadow the steps of this rank.
class Worker::Gradients final : public hymn::Joinable {
 public:
  explicit Gradients(Worker& worker) : worker_(worker) {}
  std::unique_ptr<hymn::JoinHook> join_hook(const hymn::JoinArguments&) override {
    return std::make_unique<Hook>(worker_);
  }
  hymn::ProcessGroup join_group() const override { return worker_.group_; }

 private:
  class Hook final : public hymn::JoinHook {
   public:
    explicit Hook(Worker& worker) : worker_(worker) {}
    // The sums that come back are those of the others: this rank's model goes with theirs.
    void main_hook() override {
      clear(worker_.sums_);
      worker_.step();
    }

   private:
    Worker& worker_;
  };

  Worker& worker_;
};

Worker::Worker(hymn::ProcessGroup group, const Samples& samples, const Deal& deal,
               const Settings& settings, std::shared_ptr<hymn::Store> store)
    : group_(std::move(group)),
      samples_(samples),
      deal_(deal),
      store_(std::move(store)),
      model_(samples, settings),
      sums_(model_.sums_size()),
      uses_(samples.size()) {}

Worker::~Worker() = default;

void Worker::run_epoch(Way way, int epoch) {
  model_.begin_epoch();
  switch (way) {
    case Way::alone:
      return run_batches(epoch, deal_.batches_of(group_.rank()));
    case Way::drop:
      return run_batches(epoch, deal_.least_batches());
    case Way::shadow:
      return shadow(epoch);
    case Way::joinables:
      return join(epoch);
    case Way::steal:
      return steal(epoch);
  }
}

void Worker::take(std::size_t sample) {
  model_.add(samples_, sample, sums_);
  ++uses_[sample];
}

void Worker::compute(int epoch, std::size_t batch) {
  clear(sums_);
  deal_.for_each(group_.rank(), epoch, batch, [&](std::size_t sample) { take(sample); });
  ++computed_;
}

void Worker::step() {
  const auto begin = Clock::now();
  group_.all_reduce(sums_);
  waited_ += Clock::now() - begin;
  model_.step(sums_);
}

void Worker::run_batches(int epoch, std::size_t batches) {
  for (std::size_t batch = 0; batch < batches; ++batch) {
    compute(epoch, batch);
    step();
  }
}

void Worker::shadow(int epoch) {
  hymn::Join::shadow_all({group_}, [&] { run_batches(epoch, deal_.batches_of(group_.rank())); });
  // A rank that had run out has not seen the last steps.
  group_.broadcast(model_.state(), group_.global_rank(deal_.longest_rank()));
}

void Worker::join(int epoch) {
  Gradients gradients(*this);
  hymn::Join join({&gradients});
  join.run([&] {
    for (std::size_t batch = 0; batch < deal_.batches_of(group_.rank()); ++batch) {
      compute(epoch, batch);
      hymn::Join::notify(gradients);
      step();
    }
  });
}

/// Steps have as many samples as when all ranks have a batch, and all ranks make as many of them. A
/// rank may find that its next chunk belongs to a later step: then it keeps it until that one.
void Worker::steal(int epoch) {
  const std::size_t chunk = std::max<std::size_t>(1, deal_.batch() / 4);
  const std::size_t in_step = deal_.batch() / chunk * static_cast<std::size_t>(group_.size());
  const hymn::Shard order = deal_.order_of(samples_.size(), epoch);
  hymn::ChunkQueue queue(store_, fmt::format("epoch {}", epoch), {0, samples_.size()}, chunk);
  const auto ask = [&] {
    const auto begin = Clock::now();
    const std::optional<hymn::IndexRange> next = queue.next();
    asked_ += Clock::now() - begin;
    return next;
  };
  std::optional<hymn::IndexRange> mine = ask();
  for (std::size_t first = 0; first < queue.chunks(); first += in_step) {
    clear(sums_);
    while (mine && mine->begin / chunk < first + in_step) {
      for (std::size_t i = mine->begin; i < mine->end; ++i) take(order[i]);
      ++computed_;
      mine = ask();
    }
    step();
  }
}

void train_serially(Model& model, const Samples& samples, const Deal& deal, int epoch) {
  std::vector<float> sums(model.sums_size());
  std::vector<float> part(model.sums_size());
  model.begin_epoch();
  for (std::size_t batch = 0; batch < deal.most_batches(); ++batch) {
    clear(sums);
    for (int rank = 0; rank < deal.ranks(); ++rank) {
      clear(part);
      deal.for_each(rank, epoch, batch,
                    [&](std::size_t sample) { model.add(samples, sample, part); });
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    }
    model.step(sums);
  }
}

}  // namespace uneven
